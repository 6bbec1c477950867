"""Decompression of record batches, within bounds."""

import struct
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import cramjam

MAX_EXPANDED_BYTES: Final = 16 * 1024 * 1024
"""Maximum bytes of a batch's expanded records. Producers make 16 KB to 1 MB; 24 KB of zstd can hold 800 MB."""

_GZIP: Final = zlib.MAX_WBITS | 16
_MAX_MEMBERS: Final = 100
"""Maximum number of gzip members in a batch. Producers write one; each costs a pass over everything after it."""
_XERIAL: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER_BYTES: Final = 16
_BLOCK_SIZE: Final = struct.Struct(">i")

_buffer = bytearray()


class TooFarError(Exception):
    """The records expand to more than MAX_EXPANDED_BYTES."""


class MalformedError(Exception):
    """The bytes aren't valid for their codec, or the codec is unknown."""


def expanded(codec: int, payload: memoryview) -> memoryview:
    """The decompressed records of a batch; `codec` as in the batch's attributes (1 gzip to 4 zstd).

    The result may lie in a buffer that the next call overwrites. Raises TooFarError or MalformedError.
    """
    expand = _CODECS.get(codec)
    if expand is None:
        raise MalformedError(f"unknown compression codec {codec}")
    try:
        return expand(payload)
    except (cramjam.DecompressionError, zlib.error, struct.error, ValueError) as error:
        raise MalformedError(f"{_CODEC_NAMES[codec]}: {error}") from error


def _expand_gzip(payload: memoryview) -> memoryview:
    parts: list[bytes] = []
    left, rest = MAX_EXPANDED_BYTES, bytes(payload)
    while rest:
        if len(parts) == _MAX_MEMBERS:
            raise MalformedError(f"gzip: more than {_MAX_MEMBERS} members")
        member = zlib.decompressobj(_GZIP)
        parts.append(member.decompress(rest, left + 1))
        left -= len(parts[-1])
        if left < 0:
            raise TooFarError
        if not member.eof:
            raise MalformedError("gzip: unexpected end of data")
        rest = member.unused_data.lstrip(b"\0")
    return memoryview(b"".join(parts))


def _expand_snappy(payload: memoryview) -> memoryview:
    """Decompress one block, or the sequence of blocks that the Java library xerial writes."""
    if bytes(payload[: len(_XERIAL)]) != _XERIAL:
        return _expand_snappy_block(payload, MAX_EXPANDED_BYTES)
    parts: list[bytes] = []
    left, position = MAX_EXPANDED_BYTES, _XERIAL_HEADER_BYTES
    while position < len(payload):
        (size,) = _BLOCK_SIZE.unpack_from(payload, position)
        position += _BLOCK_SIZE.size
        if not 0 < size <= len(payload) - position:
            raise MalformedError(f"snappy: a block of {size} bytes, but only {len(payload) - position} are left")
        parts.append(bytes(_expand_snappy_block(payload[position : position + size], left)))
        left -= len(parts[-1])
        position += size
    return memoryview(b"".join(parts))


def _expand_snappy_block(block: memoryview, max_bytes: int) -> memoryview:
    compressed = bytes(block)
    if cramjam.snappy.decompress_raw_len(compressed) > max_bytes:
        raise TooFarError
    return memoryview(bytes(cramjam.snappy.decompress_raw(compressed)))


def _expand_framed(decompress_into: Callable[[bytes, bytearray], int], payload: memoryview) -> memoryview:
    # One buffer for all: a new one would have to be zeroed for each batch, however small.
    if not _buffer:
        _buffer.extend(bytes(MAX_EXPANDED_BYTES))
    try:
        length = decompress_into(bytes(payload), _buffer)
    except cramjam.DecompressionError as error:
        if _is_beyond_buffer(error):
            raise TooFarError from error
        raise
    return memoryview(_buffer)[:length]


def _is_beyond_buffer(error: cramjam.DecompressionError) -> bool:
    """True if the content is larger than the buffer. cramjam 2 has one error for all failures, so its text decides."""
    return "whole buffer" in str(error)


_CODEC_NAMES: Final = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_CODECS: Final[Mapping[int, Callable[[memoryview], memoryview]]] = {
    1: _expand_gzip,
    2: _expand_snappy,
    3: partial(_expand_framed, cramjam.lz4.decompress_into),
    4: partial(_expand_framed, cramjam.zstd.decompress_into),
}
