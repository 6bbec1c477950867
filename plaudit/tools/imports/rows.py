"""Rows of CSV and JSON Lines with their line numbers. A row that can't be parsed has a fault, and stops nothing."""

import asyncio
import csv
import json
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, BinaryIO, Final, TypeVar

import orjson

from domain.csv_cells import text_of
from messaging.schemas import REVIEW_LENGTH
from plaudit.terminal import shown
from plaudit.tools.file_format import FileFormat
from plaudit.tools.imports.bad_rows import cut

T = TypeVar("T")

MAX_LINE_BYTES: Final = 1024 * 1024
"""Maximum bytes of a line, as for messages: a longer line can't be a review."""

_LONGEST_FIELD: Final = 8 * REVIEW_LENGTH
"""Maximum characters of a CSV field: a control character is escaped as seven."""

_MOST_LINES: Final = REVIEW_LENGTH
"""Maximum lines of a CSV row, whose longest text is the review."""

_PAUSE_EVERY_S: Final = 0.1

csv.field_size_limit(_LONGEST_FIELD)

_BOM: Final = b"\xef\xbb\xbf"
_NOT_UTF_8: Final = "Not UTF-8"
_ARRAY: Final = "Not a JSON object: write each object of an array on a line of its own"
_TOO_LONG: Final = f"The line has more than {MAX_LINE_BYTES} bytes"
_TOO_LARGE: Final = f"The row has more than {_MOST_LINES} lines, or {MAX_LINE_BYTES} bytes"


@dataclass(frozen=True, slots=True)
class Line:
    """A line, its number from 1, and the byte offset after it. `data` is None if the line is too long."""

    number: int
    end: int
    data: bytes | None


class Lines:
    """Reads lines one by one; lines can be put back. Memory holds one line and those that were put back."""

    def __init__(self, file: BinaryIO, *, offset: int = 0, number: int = 0) -> None:
        """Start after line `number`, which ends at byte `offset`."""
        self._file = file
        self._back: deque[Line] = deque()
        self._read_offset, self._read_number = offset, number
        file.seek(offset)

    def __iter__(self) -> Iterator[Line]:
        return self

    def __next__(self) -> Line:
        if self._back:
            return self._back.popleft()
        data = self._file.readline(MAX_LINE_BYTES + 1)
        if not data:
            raise StopIteration
        size, is_too_long = len(data), len(data) > MAX_LINE_BYTES
        rest = data
        while is_too_long and rest and not rest.endswith(b"\n"):
            rest = self._file.readline(MAX_LINE_BYTES)
            size += len(rest)
        if self._read_offset == 0:
            data = data.removeprefix(_BOM)
        self._read_offset += size
        self._read_number += 1
        return Line(self._read_number, self._read_offset, None if is_too_long else data)

    def put_back(self, lines: list[Line]) -> None:
        """Put back the lines that were read last, to be read again."""
        self._back.extendleft(reversed(lines))


@dataclass(frozen=True, slots=True)
class Row:
    """A row from line `line` to line `end_line`, which ends at byte `end`; with its columns by name, or its fault."""

    line: int
    end_line: int
    end: int
    columns: dict[str, Any] | None = None
    fault: str | None = None


async def with_pauses(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, with pauses for the event loop: reading them awaits nothing, and must notice a stop signal."""
    paused = monotonic()
    for item in items:
        if monotonic() >= paused + _PAUSE_EVERY_S:
            await asyncio.sleep(0)
            paused = monotonic()
        yield item


class _LineFaultError(Exception):
    """A line can't be parsed; the message gives the reason."""


def json_rows(file: BinaryIO, *, offset: int, line: int) -> Iterator[Row]:
    """The rows of JSON Lines after line `line`, which ends at byte `offset`. Blank lines are skipped."""
    for each in Lines(file, offset=offset, number=line):
        if each.data is not None and not each.data.strip():
            continue
        columns, fault = _json_object(each.data)
        yield Row(each.number, each.number, each.end, columns, fault)


def _json_object(data: bytes | None) -> tuple[dict[str, Any] | None, str | None]:
    if data is None:
        return None, _TOO_LONG
    if _decoded(data) is None:
        return None, _NOT_UTF_8
    if data.lstrip().startswith(b"["):
        return None, _ARRAY
    try:
        value = orjson.loads(data)
        json.loads(data, object_pairs_hook=_reject_duplicates)
    except orjson.JSONDecodeError as error:
        return None, f"Not JSON: {error.msg} at column {error.colno}"
    except _LineFaultError as error:
        return None, str(error)
    except RecursionError:
        return None, "Nested too deeply"
    return (value, None) if isinstance(value, dict) else (None, "Not a JSON object")


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> None:
    """Raises _LineFaultError: an object has a name twice, so that its value is ambiguous."""
    names = set()
    for name, _ in pairs:
        if name in names:
            raise _LineFaultError(f"A field occurs twice: {shown(cut(name))}")
        names.add(name)


def rows_of(file: BinaryIO, format: FileFormat, names: list[str], *, offset: int, line: int) -> Iterator[Row]:
    """The rows of a file after line `line`, which ends at byte `offset`; `names` are the columns of a CSV."""
    if format is FileFormat.JSONL:
        return json_rows(file, offset=offset, line=line)
    return csv_rows(file, names, offset=offset, line=line)


def csv_header(file: BinaryIO) -> tuple[list[str], Row] | None:
    """The column names and the header row; None for a file of blank lines. Raises ValueError: it can't be parsed."""
    for fields, row in _records(Lines(file)):
        if fields is None:
            raise ValueError(row.fault)
        if fields:
            return [name.strip() for name in fields], row
    return None


def csv_rows(file: BinaryIO, names: list[str], *, offset: int, line: int) -> Iterator[Row]:
    """The rows of CSV after line `line`, which ends at byte `offset`. Blank lines are skipped.

    A field may span several lines; its escaping against spreadsheets is undone. If quotes don't match, only the first
    line of the row is at fault, and the next line starts a new row: an unclosed quote costs one row, not the rest of
    the file.
    """
    for fields, row in _records(Lines(file, offset=offset, number=line)):
        if fields is None:
            yield row
        elif len(fields) == len(names):
            yield replace(row, columns=dict(zip(names, map(text_of, fields), strict=True)))
        elif fields:
            yield replace(row, fault=f"The row has {len(fields)} columns, but the header has {len(names)}")


def _records(lines: Lines) -> Iterator[tuple[list[str] | None, Row]]:
    """The fields of each row: empty for a blank line, None for a row that can't be parsed.

    Behind a fault each line is parsed a second time, as the start of a row, and not more often: one that leaves a quote
    open would go on through the same lines, up to line `open_until`, to the same fault.
    """
    taken: list[Line] = []
    is_utf_8 = True
    open_until, fault = 0, ""

    def texts() -> Iterator[str]:
        nonlocal is_utf_8
        while True:
            if taken and taken[-1].number < open_until:
                raise _LineFaultError(fault)
            if _is_too_large(taken):
                raise _LineFaultError(_TOO_LARGE)
            line = next(lines, None)
            if line is None:
                return
            taken.append(line)
            if line.data is None:
                raise _LineFaultError(_TOO_LONG)
            text = _decoded(line.data)
            is_utf_8 = is_utf_8 and text is not None
            yield text if text is not None else line.data.decode(errors="replace")

    reader = csv.reader(texts(), strict=True)
    while True:
        taken, is_utf_8 = [], True
        try:
            fields = next(reader)
        except StopIteration:
            return
        except (csv.Error, _LineFaultError) as error:
            lines.put_back(taken[1:])
            reader = csv.reader(texts(), strict=True)
            if len(taken) > 1:
                fault = f"Not CSV: {error}"
                # A row that starts in the second half of one that is too large may still end.
                open_until = taken[len(taken) // 2 if _is_too_large(taken) else -1].number
                yield None, _row(taken[:1], fault)
            else:
                yield None, _row(taken, str(error) if isinstance(error, _LineFaultError) else f"Not CSV: {error}")
        else:
            yield (fields, _row(taken)) if is_utf_8 else (None, _row(taken, _NOT_UTF_8))


def _is_too_large(lines: list[Line]) -> bool:
    return len(lines) > 1 and (len(lines) >= _MOST_LINES or lines[-1].end - lines[0].end > MAX_LINE_BYTES)


def _row(lines: list[Line], fault: str | None = None) -> Row:
    return Row(lines[0].number, lines[-1].number, lines[-1].end, fault=fault)


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
