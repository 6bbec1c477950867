"""Recognise the files that this service writes: JPEGs of one form, in which every bit is accounted for.

Runs in the process of `images_child`, isolated from the service.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_TABLE: Final = b"\xff\xc4"
_SCAN: Final = b"\xff\xda"
_END: Final = b"\xff\xd9"

_KINDS: Final = (0x00, 0x10, 0x01, 0x11)
"""Class and id bytes of the Huffman tables, in file order: DC and AC of luminance, then of chrominance."""

_BLOCKS: Final = ((0, 0), (0, 0), (0, 0), (0, 0), (1, 2), (2, 2))
"""Channel and index of the DC table for each block of a group of 16 x 16 pixels: four luminance, two chrominance."""

_GROUP_PIXELS: Final = 16
_BLOCK_VALUES: Final = 64
_LONGEST_CODE: Final = 16
_MOST_DC_BITS: Final = 11
_MOST_AC_BITS: Final = 10
_SHORTEST_SCAN: Final = 2
_LARGEST_DC: Final = 2_047
_END_OF_BLOCK: Final = 0x00
_SIXTEEN_ZEROS: Final = 0xF0


class _OtherFormError(Exception):
    """The file doesn't have the form in which this service writes."""


@dataclass(frozen=True, slots=True)
class _Table:
    """A Huffman table."""

    entries: list[int]
    """Indexed by the next 16 bits: the symbol, and in the last byte the bits of its code and value; 0: no code."""
    count: int
    """Number of codes."""
    used: set[int] = field(default_factory=set)
    """Entries that were met."""


def is_as_written(raw: bytes, blank: bytes, size: tuple[int, int]) -> bool:
    """True if the file has the form in which this service writes, and so can hold nothing but its pixels.

    `blank` is a file written by this service, of the same size in pixels. Both have to be equal up to the Huffman
    tables, and between these and the pixels, so that there is no room for other data. Each code of the tables has to
    be used, the codes have to make up exactly all blocks, and nothing may follow.
    """
    head, scan = blank.index(_TABLE), blank.index(_SCAN)
    begin = blank[scan : scan + 2 + int.from_bytes(blank[scan + 2 : scan + 4], "big")]
    if raw[:head] != blank[:head] or raw[-2:] != _END:
        return False
    try:
        tables, at = [], head
        for kind in _KINDS:
            table, at = _read_table(raw, at, kind)
            tables.append(table)
        if raw[at : at + len(begin)] != begin:
            return False
        width, height = (-(-pixels // _GROUP_PIXELS) for pixels in size)
        _read_blocks(_unstuffed(raw[at + len(begin) : -2]), tables, width * height)
    except _OtherFormError:
        return False
    return all(len(table.used) == table.count for table in tables)


def _read_table(raw: bytes, at: int, kind: int) -> tuple[_Table, int]:
    """The Huffman table of this kind at offset `at`, and the offset of its end. Raises _OtherFormError."""
    counts = raw[at + 5 : at + 5 + _LONGEST_CODE]
    symbols = raw[at + 21 : at + 21 + sum(counts)]
    head = _TABLE + (19 + len(symbols)).to_bytes(2, "big") + bytes([kind])
    if raw[at : at + 5] != head or len(symbols) != sum(counts) or len(set(symbols)) != len(symbols):
        raise _OtherFormError
    entries: list[int] = []
    for symbol, length in zip(symbols, _lengths(counts), strict=True):
        entries += [(symbol << 8) | (length + (symbol & 15))] * (1 << (_LONGEST_CODE - length))
        # The code that consists of ones only is never assigned.
        if not _is_symbol(symbol, is_dc=kind < 0x10) or len(entries) >= (1 << _LONGEST_CODE):
            raise _OtherFormError
    entries += [0] * ((1 << _LONGEST_CODE) - len(entries))
    return _Table(entries, len(symbols)), at + 21 + len(symbols)


def _is_symbol(symbol: int, *, is_dc: bool) -> bool:
    if is_dc:
        return symbol <= _MOST_DC_BITS
    return symbol in (_END_OF_BLOCK, _SIXTEEN_ZEROS) or 1 <= (symbol & 15) <= _MOST_AC_BITS


def _lengths(counts: bytes) -> Iterator[int]:
    for length, count in enumerate(counts, 1):
        yield from [length] * count


def _unstuffed(scan: bytes) -> bytes:
    """The codes of a scan, without the stuffed zero bytes. Raises _OtherFormError for a marker."""
    if len(scan) < _SHORTEST_SCAN or b"\xff" in scan.replace(b"\xff\x00", b""):
        raise _OtherFormError
    return scan.replace(b"\xff\x00", b"\xff")


def _read_blocks(codes: bytes, tables: list[_Table], groups: int) -> None:
    """Read `groups` groups of blocks. Raises _OtherFormError unless these are all that there is.

    A single loop with almost no calls, for speed: a large photograph has a million codes.
    """
    windows, end = _windows(codes), 8 * len(codes)
    dc_values = [0, 0, 0]
    at = 0
    for _ in range(groups):
        for channel, first in _BLOCKS:
            entries, used = tables[first].entries, tables[first].used
            index = 0
            while index < _BLOCK_VALUES:
                if at >= end:
                    raise _OtherFormError
                entry = entries[(windows[at >> 3] >> (8 - (at & 7))) & 0xFFFF]
                if not entry:
                    raise _OtherFormError
                used.add(entry)
                at += entry & 0xFF
                if index == 0:
                    dc_values[channel] += _value(codes, at, entry >> 8)
                    entries, used = tables[first + 1].entries, tables[first + 1].used
                    index = 1
                else:
                    index += (entry >> 12) + 1 if entry > 0xFF else _BLOCK_VALUES - index
            if index > _BLOCK_VALUES or abs(dc_values[channel]) > _LARGEST_DC:
                raise _OtherFormError
    rest = end - at
    if not 0 <= rest < 8 or ~codes[-1] & ((1 << rest) - 1):
        raise _OtherFormError


def _windows(codes: bytes) -> "array[int]":
    """The 24 bits that begin at each byte, padded with zeros after the last one."""
    shifted = zip(codes, codes[1:] + b"\0", codes[2:] + b"\0\0", strict=True)
    return array("I", ((first << 16) | (second << 8) | third for first, second, third in shifted))


def _value(codes: bytes, end: int, bits: int) -> int:
    """The number in the `bits` bits before bit `end`; it is negative if it begins with a zero."""
    first, last = (end - bits) >> 3, -(-end // 8)
    value = (int.from_bytes(codes[first:last], "big") >> (8 * last - end)) & ((1 << bits) - 1)
    return value if bits == 0 or value >> (bits - 1) else value - (1 << bits) + 1
