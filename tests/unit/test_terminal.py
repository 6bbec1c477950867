"""External text cannot control the terminal."""

import asyncio
import io
import json
import logging
import os
import sys
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from domain.orders import Customer
from domain.reminders import Decided, ReviewableOrder, Skip
from domain.stores import GeneralSettings
from domain.timestamps import EPOCH
from plaudit.config import LogSettings, Settings
from plaudit.processes.logs import configure_logs
from plaudit.terminal import Terminal, output, print_json, shown, shown_json, shown_lines
from plaudit.tools import reminders
from plaudit.tools.export import review_writer
from plaudit.tools.file_format import FileFormat

TEXTS = st.text(st.one_of(st.sampled_from("\x1b\x9b\x07\r\n\t[]/:\u202e\ud800"), st.characters()))


def is_harmless(text: str) -> bool:
    return all(character.isprintable() or character == "\n" for character in text)


@given(TEXTS)
def test_shown_text_is_harmless_and_keeps_its_length(text: str) -> None:
    assert shown(text).isprintable()
    assert len(shown(text)) == len(shown_lines(text)) == len(text)
    assert is_harmless(shown_lines(text))
    assert shown_lines(text).count("\n") == text.count("\n")
    assert all(a in (b, "\ufffd") for a, b in zip(shown(text), text, strict=True))


@given(TEXTS, st.sampled_from([None, 2]))
def test_shown_json_keeps_its_value(text: str, indent: int | None) -> None:
    written = shown_json(json.dumps({text: [text]}, ensure_ascii=False, indent=indent))
    assert is_harmless(written)
    assert json.loads(written) == {text: [text]}


def printed(value: Any) -> str:
    terminal = Terminal()
    with terminal.capture() as captured:
        terminal.print(value)
    return captured.get()


@pytest.mark.parametrize("text", ["[bold]a[/bold]", ":bomb:", "[/]", "[link=http://x]"])
def test_markup_is_text(text: str) -> None:
    assert printed(text) == f"{text}\n"
    table = Table(text, box=None)
    table.add_row(text)
    assert printed(table).count(text) == 2


@given(TEXTS)
def test_terminal_prints_harmless_text(text: str) -> None:
    assert is_harmless(printed(text))


def test_json_is_harmless_and_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even on a terminal and with FORCE_COLOR, since programs read it."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    terminal = Terminal()
    terminal.file = file = io.StringIO()
    monkeypatch.setattr(file, "isatty", lambda: True)
    print_json(terminal, {"[bold]": "\x9b\x7f"})
    assert is_harmless(file.getvalue())
    assert json.loads(file.getvalue()) == {"[bold]": "\x9b\x7f"}


@pytest.mark.parametrize(("result", "printed_text"), [({"replayed": 1}, '{\n  "replayed": 1\n}\n'), (None, "")])
def test_json_of_a_command_that_fails_after_its_result(result: object, printed_text: str) -> None:
    terminal = Terminal()
    terminal.file = file = io.StringIO()

    def run() -> None:
        with output(terminal, as_json=True) as console:
            if result:
                console.set_result(result)
            sys.exit(1)

    with pytest.raises(SystemExit):
        run()
    assert file.getvalue() == printed_text


@pytest.mark.parametrize("rows", [[], [{"id": "1"}], [{"id": "a\x9b", "to": None}, ["\ud800\n", 1.5]]])
def test_rows_are_printed_at_once_as_a_part_of_the_result(rows: list[Any]) -> None:
    whole, streamed = Terminal(), Terminal()
    whole.file = expected = io.StringIO()
    streamed.file = file = io.StringIO()
    with output(streamed, as_json=True) as console:
        for row in rows:
            before = file.getvalue()
            console.add_row("rows", row)
            assert file.getvalue() > before
        console.set_result({"counts": {}, "rows": [], "done": True})
    if rows:
        print_json(whole, {"rows": rows, "counts": {}, "done": True})
        assert file.getvalue() == expected.getvalue()
    assert json.loads(file.getvalue()) == {"rows": rows, "counts": {}, "done": True}


def test_long_list_is_printed_piece_by_piece() -> None:
    terminal, rows = Terminal(), [{"place": f"order-events/0/{number}"} for number in range(4_000)]
    with Path(os.devnull).open("w") as terminal.file:
        tracemalloc.start()
        try:
            print_json(terminal, rows)
            assert tracemalloc.get_traced_memory()[1] < 100_000
        finally:
            tracemalloc.stop()


def test_preview_of_many_reminders_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def reached(*_: Any) -> AsyncIterator[tuple[Any, Any]]:
        yield None, None

    async def preview(*_: Any, **__: Any) -> AsyncIterator[Decided]:
        for number in range(4_000):
            order = ReviewableOrder(f"order-{number}", None, "Complete", False, None, Customer(), EPOCH, ())
            yield Decided(order, None, Skip.NO_CUSTOMER, is_changed=False)

    stores = Mock(general=AsyncMock(return_value=GeneralSettings()))
    monkeypatch.setattr(reminders, "reached", reached)
    monkeypatch.setattr(reminders, "preview", preview)
    monkeypatch.setattr(reminders, "StoreRepository", Mock(return_value=stores))
    terminal = Terminal()
    with Path(os.devnull).open("w") as terminal.file, output(terminal, as_json=True) as console:
        # No file is needed.
        monkeypatch.setattr("tempfile.tempdir", os.devnull)
        tracemalloc.start()
        try:
            asyncio.run(reminders.show_preview(Settings(), console, None))
            console.print_result()
            assert tracemalloc.get_traced_memory()[1] < 500_000
        finally:
            tracemalloc.stop()


@given(TEXTS.filter(lambda text: "\ud800" not in text and text.isprintable() is False))
def test_exported_json_lines_are_harmless(text: str) -> None:
    storable = text.encode(errors="ignore").decode()
    file = io.BytesIO()
    review: Any = {"review": storable}
    review_writer(file, FileFormat.JSONL)(review)
    assert is_harmless(file.getvalue().decode())
    assert json.loads(file.getvalue()) == review


@pytest.fixture
def unconfigured_logs() -> Iterator[None]:
    """Logs that a test may configure."""
    root = logging.getLogger()
    handlers, level, before = root.handlers, root.level, structlog.get_config()
    yield
    structlog.reset_defaults()
    root.handlers = handlers
    root.setLevel(level)
    structlog.configure(**before)


@pytest.mark.usefixtures("unconfigured_logs")
def test_log_on_a_terminal_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings())
    try:
        raise ValueError("\x1b[2J")
    except ValueError:
        logging.getLogger("library").exception("said\x9b31m")
    log_output = capsys.readouterr().err
    assert "said\ufffd31m" in log_output
    assert "ValueError: \ufffd[2J" in log_output
    assert is_harmless(log_output)


@pytest.mark.usefixtures("unconfigured_logs")
@pytest.mark.parametrize(
    ("is_terminal", "variables", "has_colours"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {"TERM": "xterm", "FORCE_COLOR": "1"}, False),
    ],
)
def test_log_has_colours_where_they_are_wanted(
    is_terminal: bool,
    variables: dict[str, str],
    has_colours: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    configure_logs(LogSettings())
    logging.getLogger("library").warning("said")
    log_output = capsys.readouterr().err
    assert "said" in log_output
    assert ("\x1b[" in log_output) is has_colours
