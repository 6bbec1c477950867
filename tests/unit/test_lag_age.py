"""The age of a backlog, from past end offsets of the partitions."""

from messaging.kafka.lag import Partition, Unread
from messaging.kafka.lag_age import LagAge
from messaging.topics import Topic

STUCK, FLOWING, EMPTY = ((Topic.ORDER_EVENTS, number) for number in range(3))


def observe_minute(age: LagAge, now: float) -> dict[Partition, float]:
    """Observe a minute's offsets: a record arrives in STUCK and FLOWING each minute, FLOWING is consumed."""
    minute = int(now / 60)
    lag = {STUCK: Unread(minute, 7), FLOWING: Unread(min(1, minute), 7 + minute), EMPTY: Unread(0, 5)}
    age.observe(lag, now)
    return age.seconds()


def test_stuck_partition_ages_beside_others() -> None:
    age = LagAge()
    for minute in range(11):
        seconds = observe_minute(age, 60 * minute)
        assert seconds[STUCK] == max(0, 60 * (minute - 1))
        assert seconds[FLOWING] == seconds[EMPTY] == 0
    assert age.unknown() == {}


def test_slow_backlog_has_the_age_of_its_next_record() -> None:
    age = LagAge()
    age.observe({STUCK: Unread(0, 0)}, 0)
    # Three records arrive each minute, one is consumed.
    for minute in range(1, 31):
        age.observe({STUCK: Unread(2 * minute, minute)}, 60 * minute)
    # The record at offset 30 was the 31st, and arrived in the eleventh minute.
    assert age.seconds() == {STUCK: 60 * (30 - 11)}


def test_records_before_first_observation_use_their_timestamp() -> None:
    age = LagAge()
    age.observe({STUCK: Unread(3, 17), FLOWING: Unread(2, 4)}, 1_000)
    assert age.unknown() == {STUCK: 17, FLOWING: 4}
    age.note_timestamps({STUCK: 17, FLOWING: 4}, {STUCK: 100.0})
    assert age.seconds() == {STUCK: 900, FLOWING: 0}
    age.observe({STUCK: Unread(3, 17), FLOWING: Unread(1, 5)}, 1_060)
    assert age.seconds() == {STUCK: 960, FLOWING: 60}
    assert age.unknown() == {FLOWING: 5}
    # No record from before the first observation is left.
    age.observe({STUCK: Unread(1, 20), FLOWING: Unread(0, 6)}, 1_120)
    assert age.unknown() == {}
    assert age.seconds() == {STUCK: 0, FLOWING: 0}


def test_future_timestamp_does_not_lower_observed_age() -> None:
    age = LagAge()
    age.observe({STUCK: Unread(1, 0)}, 100)
    age.note_timestamps({STUCK: 0}, {STUCK: 9_999.0})
    age.observe({STUCK: Unread(1, 0)}, 160)
    assert age.seconds() == {STUCK: 60}


def test_removed_partition_is_forgotten() -> None:
    age = LagAge()
    age.observe({STUCK: Unread(9, 7), FLOWING: Unread(1, 4)}, 0)
    age.note_timestamps({STUCK: 7}, {STUCK: -500.0})
    age.observe({FLOWING: Unread(1, 4)}, 60)
    assert age.seconds() == {FLOWING: 60}
    # The partition was created anew, with a record at an offset seen before.
    age.observe({STUCK: Unread(1, 7), FLOWING: Unread(0, 5)}, 120)
    assert age.seconds() == {STUCK: 0, FLOWING: 0}
    assert age.unknown() == {STUCK: 7}


def test_memory_is_bounded() -> None:
    age = LagAge()
    age.observe({STUCK: Unread(0, 0)}, 0)
    for second in range(1, 5_000):
        age.observe({STUCK: Unread(second, 0)}, second)
    assert age.seconds() == {STUCK: 4_998}
    assert len(age._ends[STUCK]) <= 128
