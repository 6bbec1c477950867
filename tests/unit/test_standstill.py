"""Partitions that have a backlog and make no progress."""

from messaging.kafka.lag import Lag, Unread
from messaging.kafka.standstill import STANDS_AFTER_S, Standstill
from messaging.topics import Topic

STUCK, FLOWING, EMPTY = ((Topic.ORDER_EVENTS, number) for number in range(3))


def lag(flowing_at: int) -> Lag:
    return {STUCK: Unread(3, 17), FLOWING: Unread(1_000, flowing_at), EMPTY: Unread(0, 5)}


def test_stuck_partition_beside_flowing_ones_is_reported() -> None:
    standstill = Standstill()
    for step in range(7):
        assert standstill.describe() == []
        standstill.observe(lag(step), 100 + step * STANDS_AFTER_S / 6)
    assert standstill.describe() == ["partition 0 of order-events has been at offset 17 for 60 s"]
    assert standstill.seconds() == {STUCK: STANDS_AFTER_S, FLOWING: 0}


def test_only_requested_partitions_are_reported() -> None:
    standstill = Standstill()
    standstill.observe(lag(0), 0)
    standstill.observe(lag(0), STANDS_AFTER_S)
    assert len(standstill.describe()) == 2
    assert len(standstill.describe([FLOWING])) == 1
    assert standstill.describe([EMPTY]) == []


def test_progress_or_end_of_backlog_ends_a_standstill() -> None:
    standstill = Standstill()
    standstill.observe(lag(0), 0)
    standstill.observe({STUCK: Unread(2, 18), FLOWING: Unread(0, 1_000)}, STANDS_AFTER_S)
    assert standstill.describe() == []
    standstill.observe({STUCK: Unread(2, 18), FLOWING: Unread(1, 1_000)}, STANDS_AFTER_S * 1.5)
    assert standstill.seconds() == {STUCK: STANDS_AFTER_S / 2, FLOWING: 0}
