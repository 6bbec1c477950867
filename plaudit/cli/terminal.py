"""Text from outside on a terminal, with its control characters escaped."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.text import Text


class Terminal(Console):
    """A console that interprets nothing: markup, emoji names and escape codes in a text are printed as characters."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, soft_wrap=True, highlight=False, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """All text passes here, cells of tables included; lines stay lines."""
        return super().render_str(shown_lines(text), **options)


def print_json(console: Console, value: Any) -> None:
    """Print a value as indented JSON."""
    console.print(JSONHighlighter()(Text(shown_json(json.dumps(value, indent=2, ensure_ascii=False)))))


def shown(text: str) -> str:
    """Text from outside for one line of a terminal, with its control characters escaped."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def shown_lines(text: str) -> str:
    """The same for text of several lines."""
    return "\n".join(map(shown, text.split("\n")))


def shown_json(text: str) -> str:
    """The same JSON with escapes for all control characters, which stand in strings only."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
