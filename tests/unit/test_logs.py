"""Repeated log lines of libraries are suppressed."""

import logging

from plaudit.processes.logs import LeaderMoves, Repeats


def record(logger: str, text: str, at: float) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": logger, "msg": text})
    made.created = at
    return made


def test_repeats_of_library_are_suppressed_for_a_while() -> None:
    repeats = Repeats(pause_s=10)
    assert repeats.filter(record("aiokafka.client", "away", 100))
    assert not repeats.filter(record("aiokafka.client", "away", 109.9))
    assert not repeats.filter(record("aiokafka", "away", 109.9))
    assert repeats.filter(record("aiokafka", "back", 109.9))
    assert repeats.filter(record("aiokafka", "away", 110))
    assert not repeats.filter(record("aiokafka", "away", 119))


def test_other_loggers_are_not_filtered() -> None:
    repeats = Repeats()
    for name in ("plaudit", "aiokafkaesque"):
        assert all(repeats.filter(record(name, "again", 100)) for _ in range(3))


def test_memory_is_bounded() -> None:
    repeats = Repeats()
    for number in range(5_000):
        assert repeats.filter(record("aiokafka", f"line {number}", 100))
    assert len(repeats._passed) <= 1_000


def test_leader_changes_are_logged_only_if_they_persist() -> None:
    moves = LeaderMoves(patience_s=20)
    moved = "Failed fetch offsets from 1: [Error 6] NotLeaderForPartitionError"
    assert not any(moves.filter(record("aiokafka.consumer.fetcher", moved, at)) for at in (100, 110, 119.9))
    assert moves.filter(record("aiokafka.producer.sender", moved, 125))
    assert not moves.filter(record("aiokafka.producer.sender", moved, 150))
    assert moves.filter(record("aiokafka.producer.sender", "Unable connect", 150))
    assert moves.filter(record("plaudit", moved, 150))
