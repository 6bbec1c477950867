"""Records at the limits of the format: undecodable, oversized, extremely compressed, and unusual but valid ones."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache, partial
from typing import Final

import cramjam
from aiokafka.codec import lz4_encode

from tests.support.raw_batches import GZIP, LZ4, PLAIN, SNAPPY, ZSTD, batch, nullable, record, varint

MIB: Final = 1024 * 1024

Compress = Callable[[bytes], bytes]


class Fate(Enum):
    """The required result for each record of a kind."""

    DEAD_LETTER = auto()
    """It becomes a dead letter: nothing in it is usable."""
    EFFECT_OR_DEAD_LETTER = auto()
    """Its value is valid, its envelope unusual: it takes effect or becomes a dead letter."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to make a batch from a valid value, with the number of records in it and their required result."""

    make: Callable[[bytes], bytes]
    fate: Fate = Fate.DEAD_LETTER
    records: int = 1


def xerial(data: bytes) -> bytes:
    """Snappy in the framing of the Java library."""
    blocks = [bytes(cramjam.snappy.compress_raw(data[at : at + 32_768])) for at in range(0, len(data), 32_768)]
    framed = b"".join(len(block).to_bytes(4, "big") + block for block in blocks)
    return b"\x82SNAPPY\0" + (1).to_bytes(4, "big") + (1).to_bytes(4, "big") + framed


CODECS: Final[dict[str, tuple[int, Compress]]] = {
    "gzip": (GZIP, partial(gzip.compress, compresslevel=1)),
    "snappy": (SNAPPY, xerial),
    "lz4": (LZ4, lz4_encode),
    "zstd": (ZSTD, lambda data: bytes(cramjam.zstd.compress(data))),
}
BOMB_MIB: Final = {"gzip": 60, "snappy": 60, "lz4": 60, "zstd": 800}
"""Uncompressed size in MiB of a bomb whose compressed size is just below the topic's limit."""


def plain(payload: bytes, records: int = 1) -> bytes:
    return batch(payload, count=records, codec=PLAIN)


@cache
def zeros(length: int, codec: str | None = None) -> bytes:
    """A batch with one value of `length` zero bytes."""
    number, compress = CODECS[codec] if codec else (PLAIN, bytes)
    return batch(compress(record(bytes(length))), codec=number)


def zeros_on_demand(length: int, codec: str | None = None) -> Callable[[bytes], bytes]:
    """The batch of `zeros`, made on demand: a bomb takes a second to compress."""
    return lambda _: zeros(length, codec)


def three_with(name: bytes, value: bytes) -> bytes:
    return b"".join(record(value, delta=delta, headers=[(name, b"x")]) for delta in range(3))


def kinds() -> dict[str, Kind]:
    """All kinds by name."""
    found = {**_undecodable(), **_oversized(), **_values(), **_odd()}
    for name, (codec, compress) in CODECS.items():
        found |= _compressed(name, codec, compress)
    return found


def _undecodable() -> dict[str, Kind]:
    def cut(value: bytes, by: int) -> bytes:
        content = record(value)
        return plain(content[:-by])

    def body(content: bytes) -> bytes:
        return plain(varint(len(content)) + content)

    start = b"\0" + varint(0) + varint(0)
    return {
        "header-name-not-utf8": Kind(lambda v: plain(record(v, headers=[(b"\xff\xfe", b"x")]))),
        "header-name-half-a-character": Kind(lambda v: plain(record(v, headers=[(b"a\xe2\x82", b"x")]))),
        "header-name-surrogate": Kind(lambda v: plain(record(v, headers=[(b"\xed\xa0\x80", None)]))),
        "second-header-not-utf8": Kind(lambda v: plain(record(v, headers=[(b"a", b""), (b"\xc3\x28", b"")]))),
        "three-header-names-not-utf8": Kind(lambda v: plain(three_with(b"\xff", v), 3), records=3),
        "header-value-cut": Kind(partial(cut, by=1)),
        "value-cut": Kind(partial(cut, by=3)),
        "no-records": Kind(lambda _: plain(b"")),
        "noise": Kind(lambda _: plain(b"\xff" * 40)),
        "record-of-negative-length": Kind(lambda _: plain(varint(-5) + b"x" * 20)),
        "record-of-endless-length": Kind(lambda _: plain(b"\xff" * 9 + b"\x01" + b"x" * 20)),
        "key-longer-than-record": Kind(lambda v: body(start + varint(10_000) + b"k" + nullable(v) + varint(0))),
        "value-longer-than-record": Kind(lambda v: body(start + varint(-1) + varint(10_000) + v)),
        "more-headers-than-there-are": Kind(lambda v: body(start + varint(-1) + nullable(v) + varint(9))),
        "headers-of-negative-count": Kind(lambda v: body(start + varint(-1) + nullable(v) + varint(-4))),
        "bytes-behind-headers": Kind(lambda v: body(start + varint(-1) + nullable(v) + varint(0) + b"xx")),
        "offset-before-batch": Kind(lambda v: plain(record(v, delta=-5))),
        "offset-behind-batch": Kind(lambda v: plain(record(v, delta=1_000))),
        "unknown-codec": Kind(lambda v: batch(record(v), codec=5)),
    }


def _compressed(name: str, codec: int, compress: Compress) -> dict[str, Kind]:
    def packed(payload: bytes, records: int = 1) -> bytes:
        return batch(payload, count=records, codec=codec)

    bomb = zeros_on_demand(BOMB_MIB[name] * MIB, name)
    large = zeros_on_demand(15 * MIB, name)
    return {
        f"{name}-header-name-not-utf8": Kind(lambda v: packed(compress(three_with(b"\xff\xfe", v)), 3), records=3),
        f"{name}-header-name-surrogate": Kind(
            lambda v: packed(compress(record(v, headers=[(b"a", b""), (b"\xed\xa0\x80", None)])))
        ),
        f"{name}-header-name-overlong": Kind(lambda v: packed(compress(record(v, headers=[(b"\xc0\xaf" * 9, b"")])))),
        f"{name}-value-null": Kind(lambda _: packed(compress(record(None)))),
        f"{name}-value-not-utf8": Kind(lambda _: packed(compress(record(b"\xff\xfe{}")))),
        f"{name}-with-garbage-behind": Kind(lambda v: packed(compress(record(v)) + b"garbage")),
        f"{name}-cut": Kind(lambda v: packed(compress(record(v))[:-5])),
        f"{name}-noise": Kind(lambda _: packed(b"\x07noise that nobody compressed")),
        f"{name}-of-nothing": Kind(lambda _: packed(compress(b""))),
        f"{name}-bomb": Kind(bomb),
        f"{name}-15-mib": Kind(large),
        f"{name}-just-too-large": Kind(zeros_on_demand(MIB + 1, name)),
        f"{name}-two-members": Kind(
            lambda v: packed(compress(record(v)) + compress(record(v, delta=1)), 2),
            Fate.EFFECT_OR_DEAD_LETTER,
            records=2,
        ),
    }


def _oversized() -> dict[str, Kind]:
    return {
        "just-too-large": Kind(zeros_on_demand(MIB + 1)),
        "three-mib": Kind(zeros_on_demand(3 * MIB)),
        "key-of-a-mib": Kind(lambda v: plain(record(v, key=b"k" * MIB)), Fate.EFFECT_OR_DEAD_LETTER),
        "header-of-a-mib": Kind(lambda v: plain(record(v, headers=[(b"h", b"x" * MIB)])), Fate.EFFECT_OR_DEAD_LETTER),
        "header-name-of-a-mib": Kind(
            lambda v: plain(record(v, headers=[(b"h" * MIB, b"")])), Fate.EFFECT_OR_DEAD_LETTER
        ),
        "ten-thousand-headers": Kind(
            lambda v: plain(record(v, headers=[(b"h", b"x")] * 10_000)), Fate.EFFECT_OR_DEAD_LETTER
        ),
    }


def _values() -> dict[str, Kind]:
    values = {
        "null": None,
        "empty": b"",
        "not-utf8": b"\xff\xfe{}",
        "deep": b"[" * 100_000,
        "long-number": b"9" * 100_000,
        "many-names": b"{" + b",".join(b'"%d":0' % n for n in range(50_000)) + b"}",
    }
    made = {name: plain(record(value)) for name, value in values.items()}
    return {f"value-{name}": Kind(partial(_always, raw)) for name, raw in made.items()}


def _always(raw: bytes, _: bytes) -> bytes:
    return raw


def _odd() -> dict[str, Kind]:
    odd = {
        "header-value-null": lambda v: plain(record(v, headers=[(b"ce_id", None), (b"traceparent", None)])),
        "header-value-not-utf8": lambda v: plain(record(v, headers=[(b"ce_id", b"\xff"), (b"ce_time", b"\xfe")])),
        "header-name-empty": lambda v: plain(record(v, headers=[(b"", b""), (b"", None)])),
        "key-not-utf8": lambda v: plain(record(v, key=b"\xff\xfe")),
        "time-before-1970": lambda v: batch(record(v), time=-(2**53)),
        "time-far-away": lambda v: batch(record(v), time=2**53),
    }
    return {name: Kind(make, Fate.EFFECT_OR_DEAD_LETTER) for name, make in odd.items()}


def expected_codes(name: str) -> tuple[str, ...]:
    """The error codes that dead letters of a kind may have: several only if topics differ in what they read of a
    value."""
    for ending, codes in _CODES.items():
        if name.endswith(ending):
            return codes
    return ("undecodable",)


_CODES: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("just-too-large", "three-mib", "bomb", "15-mib"), ("too-large",)),
    "value-null": ("empty",),
    **dict.fromkeys(("value-empty", "value-not-utf8", "value-deep", "value-long-number"), ("invalid-json",)),
    "value-many-names": ("invalid-message", "unknown-field"),
}
