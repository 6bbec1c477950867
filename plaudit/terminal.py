"""Terminal output that makes control characters in foreign text harmless."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any

from rich.console import Console
from rich.text import Text


class Terminal(Console):
    """A console that prints markup, emoji names and escape codes as plain characters."""

    def __init__(self, *, stderr: bool = False, quiet: bool = False) -> None:
        super().__init__(stderr=stderr, quiet=quiet, soft_wrap=True, highlight=False, markup=False, emoji=False)

    def set_result(self, value: Any) -> None:
        """Accept the result of a command as JSON; ignored here, because the printed lines have it."""

    def print_result(self) -> None:
        """Print the result now, for a command that has to know if it was. Raises OSError or SystemExit if not."""
        self.file.flush()

    def render_str(self, text: str, **options: Any) -> Text:
        """Replace control characters except newlines; all text passes here, table cells included."""
        return super().render_str(shown_lines(text), **options)


class JsonTerminal(Terminal):
    """A console that prints no lines, and keeps the result of a command, to print it to `out` as JSON."""

    def __init__(self, out: Terminal) -> None:
        super().__init__(quiet=True)
        self._out = out
        self._is_printed = False
        self.result: Any = None

    def set_result(self, value: Any) -> None:
        """Keep the value, in place of an earlier one."""
        self.result = value

    def print_result(self) -> None:
        """Print the result as JSON, once."""
        if not self._is_printed:
            self._is_printed = True
            print_json(self._out, {} if self.result is None else self.result)
            self._out.file.flush()


class Rows(list[Any]):
    """Rows of a result, of which there may be millions: a list of JSON values that only grows, in a temporary file."""

    def __init__(self) -> None:
        super().__init__()
        self._file = TemporaryFile("w+", encoding="ascii")  # noqa: SIM115 - stays open
        self._count = 0

    def append(self, row: Any) -> None:
        """Write the row to the file."""
        self._file.write(f"{json.dumps(row)}\n")
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        self._file.seek(0)
        yield from map(json.loads, self._file)

    def __del__(self) -> None:
        self._file.close()


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
    # Piece by piece: the text of many rows would take several times the memory of the rows.
    for piece in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):
        console.file.write(shown_json(piece))
    console.file.write("\n")


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
