"""The lines of a file as bytes, with their numbers and places: what an import can go on from."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

MAX_LINE_BYTES: Final = 1024 * 1024
"""As for messages: a longer line can't be a review."""

_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """A line with its number, from 1, and the offset behind it. `data` is None for one that is too long."""

    number: int
    end: int
    data: bytes | None


class Lines:
    """Reads lines one by one; a few can be put back. Memory holds one line and what was put back."""

    def __init__(self, file: BinaryIO, *, offset: int = 0, number: int = 0) -> None:
        """Start behind line `number`, which ends at `offset`."""
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
        """Have these lines, the last that were read, read again."""
        self._back.extendleft(reversed(lines))
