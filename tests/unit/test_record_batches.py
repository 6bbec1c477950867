"""Unreadable and partly readable record batches: intact records are read, the rest is reported as invalid."""

import gzip
from collections.abc import Callable
from typing import Any

import aiokafka.consumer.fetcher as fetcher
import cramjam
import pytest
from aiokafka.errors import CorruptRecordException
from hypothesis import given
from hypothesis import strategies as st

from messaging.kafka.expansion import MAX_EXPANDED_BYTES
from messaging.kafka.record_batches import Allowance, ReadableBatches, UnreadableValue, allowance, read_within_bounds
from tests.support.raw_batches import GZIP, LZ4, PLAIN, SNAPPY, ZSTD, batch, record, varint

COMPRESS: dict[int, Callable[[bytes], bytes]] = {
    PLAIN: bytes,
    GZIP: gzip.compress,
    SNAPPY: lambda data: bytes(cramjam.snappy.compress_raw(data)),
    LZ4: lambda data: bytes(cramjam.lz4.compress(data)),
    ZSTD: lambda data: bytes(cramjam.zstd.compress(data)),
}


def read(*batches: bytes) -> list[Any]:
    records: list[Any] = []
    fetched = ReadableBatches(b"".join(batches))
    while fetched.has_next():
        one = fetched.next_batch()
        assert one.validate_crc()
        records += list(one)
    return records


def unreadable(records: list[Any]) -> list[tuple[int, str]]:
    return [(r.offset, r.value.code) for r in records if isinstance(r.value, UnreadableValue)]


@pytest.mark.parametrize("codec", COMPRESS)
def test_intact_records_are_read(codec: int) -> None:
    payload = b"".join(record(b"v%d" % n, delta=n, key=b"k", headers=[(b"h", b"x"), (b"n", None)]) for n in range(5))
    records = read(batch(COMPRESS[codec](payload), count=5, codec=codec))
    assert [(r.offset, r.key, r.value) for r in records] == [(n, b"k", b"v%d" % n) for n in range(5)]
    assert records[0].headers == [("h", b"x"), ("n", None)]


@pytest.mark.parametrize("codec", COMPRESS)
def test_undecodable_header_name_invalidates_only_its_record(codec: int) -> None:
    payload = b"".join(record(b"v%d" % n, delta=n, headers=[(b"\xff\xfe" if n == 2 else b"h", b"")]) for n in range(5))
    records = read(batch(COMPRESS[codec](payload), count=5, codec=codec))
    assert [r.offset for r in records] == list(range(5))
    assert unreadable(records) == [(2, "undecodable")]
    assert [bytes(r.value) for r in records] == [b"v%d" % n for n in range(5)]
    assert records[2].headers == [("\\xff\\xfe", b"")]
    assert "header" in records[2].value.reason


@pytest.mark.long
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("size", [MAX_EXPANDED_BYTES + 1, 100 * 1024 * 1024])
def test_decompression_bomb_is_not_expanded(codec: int, size: int) -> None:
    bomb = batch(COMPRESS[codec](record(bytes(size))), codec=codec)
    records = read(bomb, batch(record(b"next")))
    assert [(r.offset, bytes(r.value)) for r in records] == [(0, b""), (0, b"next")]
    assert unreadable(records) == [(0, "too-large")]


@pytest.mark.parametrize(
    ("codec", "payload"),
    [
        (GZIP, gzip.compress(record(b"v"), mtime=0) + b"garbage"),
        (GZIP, gzip.compress(record(b"v"), mtime=0)[:-5]),
        (GZIP, b""),
        # Each of many empty members costs a scan of all that follows it: a minute for 8 MB.
        (GZIP, gzip.compress(b"", mtime=0) * 100 + gzip.compress(record(b"v"), mtime=0)),
        (SNAPPY, b"\xff" * 20),
        (SNAPPY, b"\x82SNAPPY\0" + bytes(8) + b"\xff\xff\xff\xfc" + b"x" * 8),
        (SNAPPY, b"\x82SNAPPY\0" + bytes(8) + b"\0\0\0\xff" + b"x" * 8),
        (SNAPPY, b"\x82SNAPPY\0" + bytes(8) + b"\0\0"),
        (LZ4, bytes(cramjam.lz4.compress(record(b"v")))[:-5]),
        (ZSTD, bytes(cramjam.zstd.compress(record(b"v"))) + b"garbage"),
        (ZSTD, b"not zstd"),
        (5, record(b"v")),
        (7, b""),
        (PLAIN, b""),
        (PLAIN, b"\xff" * 30),
        (PLAIN, record(b"v")[:-1]),
    ],
)
def test_unreadable_batch_is_reported_as_one_record(codec: int, payload: bytes) -> None:
    records = read(batch(payload, codec=codec), batch(record(b"next")))
    assert unreadable(records) == [(0, "undecodable")]
    assert records[1].value == b"next"


def test_unreadable_batch_is_reported_for_up_to_a_thousand_records() -> None:
    records = read(batch(b"not zstd", codec=ZSTD, count=3))
    assert unreadable(records) == [(n, "undecodable") for n in range(3)]
    records = read(batch(b"not zstd", codec=ZSTD, count=2_000_000_000))
    assert len(records) == 1_000
    assert "1999999999" in records[-1].value.reason


def test_records_around_an_invalid_one_are_read() -> None:
    middle = record(b"v1", delta=1)
    spoilt = middle[:-1] + b"\x07"  # announces headers, and ends
    records = read(batch(record(b"v0") + spoilt + record(b"v2", delta=2), count=3))
    assert [r.offset for r in records] == [0, 1, 2]
    assert unreadable(records) == [(1, "undecodable")]
    assert records[2].value == b"v2"


def test_records_that_only_aiokafka_reads_are_read_once() -> None:
    """Any negative length means null for aiokafka, and for brokers."""
    odd = [record(b"v%d" % n, delta=n).replace(b"\x01", varint(-2), 1) for n in range(2)]
    good = [record(b"v%d" % n, delta=n, headers=[(b"\xff" if n == 3 else b"h", b"")]) for n in range(2, 6)]
    records = read(batch(b"".join(odd + good), count=6))
    assert [(r.offset, r.key, bytes(r.value)) for r in records] == [(n, None, b"v%d" % n) for n in range(6)]
    assert unreadable(records) == [(3, "undecodable")]


@pytest.mark.parametrize(
    ("deltas", "misplaced"),
    [((0, 0, 2), [1]), ((2, 1, 0), [0, 2]), ((-5, 1, 2), [0]), ((0, 1, 9), [2]), ((9, 9, 9), [0, 1, 2])],
)
@pytest.mark.parametrize("name", [b"h", b"\xff"], ids=["decodable", "undecodable"])
def test_record_with_impossible_offset_takes_only_its_own_place(
    deltas: tuple[int, ...], misplaced: list[int], name: bytes
) -> None:
    names = (b"h", name, b"h")
    payload = b"".join(record(b"v%d" % n, delta=delta, headers=[(names[n], b"")]) for n, delta in enumerate(deltas))
    records = read(batch(payload, count=3), batch(record(b"next")))
    assert [bytes(r.value) for r in records] == [b"v0", b"v1", b"v2", b"next"]
    assert [r.offset for r in records[:3]] == [0, 1, 2]
    reasons = [r.value.reason if isinstance(r.value, UnreadableValue) else "" for r in records]
    assert [n for n, reason in enumerate(reasons) if "offset" in reason] == misplaced


@pytest.mark.parametrize("name", [b"h", b"\xff"], ids=["decodable", "undecodable"])
def test_gaps_of_compaction_are_kept(name: bytes) -> None:
    payload = b"".join(record(b"v", delta=delta, headers=[(name, b"")]) for delta in (2, 3, 8))
    assert [r.offset for r in read(batch(payload, count=3, last_delta=9))] == [2, 3, 8]


def test_control_batch_without_records_is_corrupt() -> None:
    """aiokafka reads its first record, and would raise a plain error."""
    with pytest.raises(CorruptRecordException, match="no records"):
        next(ReadableBatches(batch(b"", count=0)).next_batch())


@given(st.binary(max_size=200), st.integers(0, 7), st.integers(0, 50))
def test_any_bytes_are_read_as_something(payload: bytes, codec: int, count: int) -> None:
    assert len(read(batch(payload, codec=codec, count=count))) <= 50


@given(st.data(), st.sampled_from(sorted(COMPRESS)))
def test_changed_byte_adds_no_records(data: st.DataObject, codec: int) -> None:
    payload = bytearray(b"".join(record(b"v%d" % n, delta=n, headers=[(b"h", b"x")]) for n in range(4)))
    place = data.draw(st.integers(0, len(payload) - 1))
    payload[place] = data.draw(st.integers(0, 255))
    records = read(batch(COMPRESS[codec](bytes(payload)), count=4, codec=codec))
    # A changed offset or length can hide records, as it does for every client.
    assert len(records) <= 4


@pytest.mark.parametrize(("size", "expected"), [(1024 * 1024, 2), (MAX_EXPANDED_BYTES // 2, 1)])
def test_fetch_expands_no_more_than_its_allowance_after_the_first_batch(size: int, expected: int) -> None:
    limit = Allowance()
    token = allowance.set(limit)
    try:
        fetched = ReadableBatches(batch(COMPRESS[ZSTD](record(bytes(size))), codec=ZSTD) * 3)
    finally:
        allowance.reset(token)
    assert fetched.has_next()  # aiokafka checks on arrival
    taken = 0
    while fetched.has_next():
        list(fetched.next_batch())
        taken += 1
    assert taken == expected
    limit.renew()
    assert fetched.has_next()


def test_class_of_aiokafka_is_replaced() -> None:
    read_within_bounds()
    read_within_bounds()
    assert fetcher.MemoryRecords is ReadableBatches


def test_change_of_aiokafka_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher, "MemoryRecords", object)
    with pytest.raises(AttributeError, match="another class"):
        read_within_bounds()
