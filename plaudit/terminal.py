"""Terminal output that makes control characters in foreign text harmless."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.text import Text


class Terminal(Console):
    """A console that prints markup, emoji names and escape codes as plain characters."""

    def __init__(self, *, stderr: bool = False, quiet: bool = False) -> None:
        super().__init__(stderr=stderr, quiet=quiet, soft_wrap=True, highlight=False, markup=False, emoji=False)

    def set_result(self, value: Any) -> None:
        """Accept the result of a command as JSON; ignored here, because the printed lines have it."""

    def add_row(self, name: str, row: Any) -> None:
        """Accept a row of a list in the result, of which there may be millions; ignored like the result."""

    def print_result(self) -> None:
        """Print the result now, for a command that has to know if it was. Raises OSError or SystemExit if not."""
        self.file.flush()

    def render_str(self, text: str, **options: Any) -> Text:
        """Replace control characters except newlines; all text passes here, table cells included."""
        return super().render_str(shown_lines(text), **options)


class JsonTerminal(Terminal):
    """A console that prints no lines, and keeps the result of a command, to print it to `out` as JSON.

    Rows are printed at once, as the first part of the result, which must be an object. If the command then fails before
    it has set a result, the JSON ends there.
    """

    def __init__(self, out: Terminal) -> None:
        super().__init__(quiet=True)
        self._out = out
        self._is_printed = False
        self._rows: str | None = None
        """The name of the list that the printed rows are of."""
        self.result: Any = None

    def set_result(self, value: Any) -> None:
        """Keep the value, in place of an earlier one."""
        self.result = value

    def add_row(self, name: str, row: Any) -> None:
        """Print the row. All rows of a result are of the list `name`, which is empty in its value."""
        begin = f"{{\n  {json.dumps(name)}: [" if self._rows is None else ","
        self._rows = name
        text = _indented(row).replace("\n", "\n    ")
        self._out.file.write(f"{begin}\n    {text}")

    def print_result(self) -> None:
        """Print the result as JSON, once."""
        if self._is_printed:
            return
        self._is_printed = True
        if self._rows is None:
            print_json(self._out, {} if self.result is None else self.result)
        else:
            others = {name: value for name, value in (self.result or {}).items() if name != self._rows}
            self._out.file.write(f"\n  ],{_indented(others)[1:]}\n" if others else "\n  ]\n}\n")
        self._out.file.flush()


errors = Terminal(stderr=True)
"""Standard error."""


@contextmanager
def output(out: Terminal, *, as_json: bool) -> Iterator[Terminal]:
    """The console for a command: `out`, or a silent one whose JSON is printed to `out` at the end, also if the command
    exits with an error after it has set a result."""
    if not as_json:
        yield out
        return
    quiet = JsonTerminal(out)
    try:
        yield quiet
    except SystemExit:
        if quiet.result is not None:
            quiet.print_result()
        raise
    quiet.print_result()


def print_json(console: Console, value: Any) -> None:
    """Print a value as indented JSON, without colours: programs read it."""
    # Piece by piece: the text of many dead letters would take several times the memory of these.
    for piece in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):
        console.file.write(shown_json(piece))
    console.file.write("\n")


def _indented(value: Any) -> str:
    return shown_json(json.dumps(value, indent=2, ensure_ascii=False))


def shown(text: str) -> str:
    """The text for one line of a terminal, with U+FFFD for each unprintable character."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def shown_lines(text: str) -> str:
    """The text for several lines of a terminal, with U+FFFD for each unprintable character but newlines."""
    return "\n".join(map(shown, text.split("\n")))


def shown_json(text: str) -> str:
    """The JSON with all unprintable characters escaped; they occur only inside strings."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def discard_output() -> None:
    """Discard output that can't be written: Python would try again at exit, and exit with code 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
