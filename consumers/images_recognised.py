"""Recognise the files that this service writes: JPEGs of one form, of which every bit is accounted for.

Runs beside `images_child`, apart from the service.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_TABLE: Final = b"\xff\xc4"
_SCAN: Final = b"\xff\xda"
_END: Final = b"\xff\xd9"

_KINDS: Final = (0x00, 0x10, 0x01, 0x11)
"""Of Huffman tables, in their order: of means and of details, of brightness first and of colour then."""

_BLOCKS: Final = ((0, 0), (0, 0), (0, 0), (0, 0), (1, 2), (2, 2))
"""The channel and the first table of each block in a group, 16 pixels by 16: four of brightness, two of colour."""

_GROUP_PIXELS: Final = 16
_BLOCK_VALUES: Final = 64
_LONGEST_CODE: Final = 16
_MOST_MEAN_BITS: Final = 11
_MOST_DETAIL_BITS: Final = 10
_SHORTEST_SCAN: Final = 2
_LARGEST_MEAN: Final = 2_047
_END_OF_BLOCK: Final = 0x00
_SIXTEEN_ZEROS: Final = 0xF0


class _OtherFormError(Exception):
    """A file isn't of the form."""


@dataclass(frozen=True, slots=True)
class _Table:
    """A Huffman table. `entries` are by the next 16 bits: the symbol, and in the last byte the bits of its code and of
    the value behind it; 0 for no code. `used` are those that were met."""

    entries: list[int]
    count: int
    used: set[int] = field(default_factory=set)


def is_as_written(raw: bytes, blank: bytes, size: tuple[int, int]) -> bool:
    """True if a file of ours could differ from this one in nothing but its pixels.

    `blank` is a file of ours of the same size in pixels. Up to the Huffman tables, and between them and the pixels, the
    two are equal: there is no room for anything else. Each code of the tables is used, the codes are those of all
    blocks and of no more, and nothing follows.
    """
    head, scan = blank.index(_TABLE), blank.index(_SCAN)
    begin = blank[scan : scan + 2 + int.from_bytes(blank[scan + 2 : scan + 4], "big")]
    if raw[:head] != blank[:head] or raw[-2:] != _END:
        return False
    try:
        tables, at = [], head
        for kind in _KINDS:
            table, at = _table(raw, at, kind)
            tables.append(table)
        if raw[at : at + len(begin)] != begin:
            return False
        width, height = (-(-pixels // _GROUP_PIXELS) for pixels in size)
        _read_blocks(_codes(raw[at + len(begin) : -2]), tables, width * height)
    except _OtherFormError:
        return False
    return all(len(table.used) == table.count for table in tables)


def _table(raw: bytes, at: int, kind: int) -> tuple[_Table, int]:
    """The Huffman table of this kind, and where it ends."""
    counts = raw[at + 5 : at + 5 + _LONGEST_CODE]
    symbols = raw[at + 21 : at + 21 + sum(counts)]
    head = _TABLE + (19 + len(symbols)).to_bytes(2, "big") + bytes([kind])
    if raw[at : at + 5] != head or len(symbols) != sum(counts) or len(set(symbols)) != len(symbols):
        raise _OtherFormError
    entries: list[int] = []
    for symbol, length in zip(symbols, _lengths(counts), strict=True):
        entries += [symbol << 8 | length + (symbol & 15)] * (1 << _LONGEST_CODE - length)
        # The code of ones alone is never given.
        if not _is_symbol(symbol, of_means=kind < 0x10) or len(entries) >= 1 << _LONGEST_CODE:
            raise _OtherFormError
    entries += [0] * ((1 << _LONGEST_CODE) - len(entries))
    return _Table(entries, len(symbols)), at + 21 + len(symbols)


def _is_symbol(symbol: int, *, of_means: bool) -> bool:
    if of_means:
        return symbol <= _MOST_MEAN_BITS
    return symbol in (_END_OF_BLOCK, _SIXTEEN_ZEROS) or 1 <= symbol & 15 <= _MOST_DETAIL_BITS


def _lengths(counts: bytes) -> Iterator[int]:
    for length, count in enumerate(counts, 1):
        yield from [length] * count


def _codes(scan: bytes) -> bytes:
    """The codes of a scan, without the zeros that keep them from looking like markers. Raises for a marker."""
    if len(scan) < _SHORTEST_SCAN or b"\xff" in scan.replace(b"\xff\x00", b""):
        raise _OtherFormError
    return scan.replace(b"\xff\x00", b"\xff")


def _read_blocks(codes: bytes, tables: list[_Table], groups: int) -> None:
    """Read so many groups of blocks, which must be all that there is. Raises _OtherFormError.

    One loop, all but without calls: a large photograph has a million codes.
    """
    windows, end = _windows(codes), 8 * len(codes)
    means = [0, 0, 0]
    at = 0
    for _ in range(groups):
        for channel, first in _BLOCKS:
            entries, used = tables[first].entries, tables[first].used
            index = 0
            while index < _BLOCK_VALUES:
                if at >= end:
                    raise _OtherFormError
                entry = entries[windows[at >> 3] >> 8 - (at & 7) & 0xFFFF]
                if not entry:
                    raise _OtherFormError
                used.add(entry)
                at += entry & 0xFF
                if index == 0:
                    means[channel] += _value(codes, at, entry >> 8)
                    entries, used = tables[first + 1].entries, tables[first + 1].used
                    index = 1
                else:
                    index += (entry >> 12) + 1 if entry > 0xFF else _BLOCK_VALUES - index
            if index > _BLOCK_VALUES or abs(means[channel]) > _LARGEST_MEAN:
                raise _OtherFormError
    rest = end - at
    if not 0 <= rest < 8 or ~codes[-1] & (1 << rest) - 1:
        raise _OtherFormError


def _windows(codes: bytes) -> "array[int]":
    """The 24 bits that begin at each byte; zeros follow the last one."""
    shifted = zip(codes, codes[1:] + b"\0", codes[2:] + b"\0\0", strict=True)
    return array("I", (first << 16 | second << 8 | third for first, second, third in shifted))


def _value(codes: bytes, end: int, bits: int) -> int:
    """The number in so many bits before this one; a negative one begins with a zero."""
    first, last = (end - bits) >> 3, -(-end // 8)
    value = int.from_bytes(codes[first:last], "big") >> 8 * last - end & (1 << bits) - 1
    return value if bits == 0 or value >> bits - 1 else value - (1 << bits) + 1
