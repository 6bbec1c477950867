"""Text from outside on a terminal, with its control characters escaped."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.text import Text


class Terminal(Console):
    """A console that interprets nothing: markup, emoji names and escape codes in a text are printed as characters."""

    def __init__(self, *, stderr: bool = False, quiet: bool = False) -> None:
        super().__init__(stderr=stderr, quiet=quiet, soft_wrap=True, highlight=False, markup=False, emoji=False)

    def tell(self, value: Any) -> None:
        """Take what a command has found as JSON; here the lines that it prints say the same."""

    def render_str(self, text: str, **options: Any) -> Text:
        """All text passes here, cells of tables included; lines stay lines."""
        return super().render_str(shown_lines(text), **options)


class JsonTerminal(Terminal):
    """A console that prints no lines, and keeps what a command tells as JSON."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.told: Any = {}

    def tell(self, value: Any) -> None:
        """Keep the value; the last one counts."""
        self.told = value


@contextmanager
def output(out: Terminal, *, as_json: bool) -> Iterator[Terminal]:
    """The console for a command: `out`, or one whose JSON is printed to it at the end."""
    if not as_json:
        yield out
        return
    quiet = JsonTerminal()
    yield quiet
    print_json(out, quiet.told)


def print_json(console: Console, value: Any) -> None:
    """Print a value as indented JSON: in colours on a terminal, else as it is, also where FORCE_COLOR is set."""
    text = shown_json(json.dumps(value, indent=2, ensure_ascii=False))
    if console.file.isatty():
        console.print(JSONHighlighter()(Text(text)))
    else:
        console.file.write(f"{text}\n")


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
