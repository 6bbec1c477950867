"""Handmade record batches, as no client library writes them, produced to a partition unchanged."""

import asyncio
import struct
from collections.abc import Sequence
from time import time as clock
from typing import NamedTuple

from aiokafka.record.util import calc_crc32c, encode_varint

_NOT_LEADER = 6, 5, 3

PLAIN, GZIP, SNAPPY, LZ4, ZSTD = range(5)

Header = tuple[bytes, bytes | None]


def varint(number: int) -> bytes:
    written = bytearray()
    encode_varint(number, written.append)
    return bytes(written)


def nullable(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def record(value: bytes | None, *, delta: int = 0, key: bytes | None = None, headers: Sequence[Header] = ()) -> bytes:
    """One record of format version 2; `delta` is its offset within the batch."""
    content = b"\0" + varint(0) + varint(delta) + nullable(key) + nullable(value) + varint(len(headers))
    content += b"".join(varint(len(name)) + name + nullable(text) for name, text in headers)
    return varint(len(content)) + content


def batch(
    payload: bytes, *, count: int = 1, codec: int = PLAIN, time: int | None = None, last_delta: int | None = None
) -> bytes:
    """A batch of `count` records with the bytes `payload`, already compressed (or not, in spite of its codec).

    `last_delta` is the last offset in it, by default that without gaps. `time` is in milliseconds since 1970; by
    default now, because Kafka removes records older than the retention.
    """
    time = int(clock() * 1000) if time is None else time
    last = count - 1 if last_delta is None else last_delta
    checked = struct.pack(">hiqqqhii", codec, last, time, time, -1, -1, -1, count) + payload
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, calc_crc32c(checked)) + checked


def text(content: str) -> bytes:
    return struct.pack(">h", len(content)) + content.encode()


class Placed(NamedTuple):
    """Kafka's response: error code, 0 if it stored the batch, and offset of the first record."""

    code: int
    offset: int


async def produce(kafka: str, topic: str, partition: int, raw: bytes) -> Placed:
    """Produce a batch with acks from all replicas. The addresses in `kafka` are tried in turn while the leader is
    unknown."""
    placed = Placed(_NOT_LEADER[0], -1)
    for address in kafka.split(",") * 50:
        placed = await _produce_to(address, topic, partition, raw)
        if placed.code not in _NOT_LEADER:
            break
        await asyncio.sleep(0.1)  # a new partition has no leader yet
    return placed


async def _produce_to(address: str, topic: str, partition: int, raw: bytes) -> Placed:
    body = struct.pack(">h", -1) + struct.pack(">hi", -1, 30_000) + struct.pack(">i", 1) + text(topic)
    body += struct.pack(">iii", 1, partition, len(raw)) + raw
    request = struct.pack(">hhi", 0, 7, 1) + text("raw") + body
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(struct.pack(">i", len(request)) + request)
        await writer.drain()
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        answer = await reader.readexactly(length)
    finally:
        writer.close()
    # Code and offset follow the correlation id, the topic count and name, and the partition count and number.
    return Placed(*struct.unpack_from(">hq", answer, 4 + 4 + 2 + len(topic.encode()) + 4 + 4))
