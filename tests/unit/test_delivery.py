import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.delivery import RecordPosition, Seen, in_parts, in_turn

positions = st.builds(RecordPosition, st.integers(0, 3), st.integers(0, 50), st.integers(-1, 100))


@given(st.lists(positions))
def test_seen_positions_are_covered(history: list[RecordPosition]) -> None:
    seen = Seen()
    for position in history:
        seen = seen.after(position)
        assert seen.covers(position)


@given(positions)
def test_nothing_is_covered_initially(position: RecordPosition) -> None:
    assert not Seen().covers(position)


@given(positions)
def test_next_record_is_not_covered(position: RecordPosition) -> None:
    seen = Seen().after(position)
    later = RecordPosition(position.partition, position.offset + 1, position.timestamp)
    other = RecordPosition(position.partition + 1, position.offset, position.timestamp)
    assert not seen.covers(later)
    assert not seen.covers(other)


def test_recreated_topic_starts_from_the_beginning() -> None:
    seen = Seen().after(RecordPosition(0, 900, 1_000))
    first = RecordPosition(0, 0, 2_000)
    assert not seen.covers(first)
    seen = seen.after(first)
    assert seen.covers(first)
    assert not seen.covers(RecordPosition(0, 1, 2_001))


def test_items_are_ordered_by_record_position() -> None:
    """Timestamps order items only across partitions: they may run backwards within one."""
    items = {"d": (0, 1, 90), "c": (0, 2, 50), "b": (1, 5, 60), "a": (1, 6, 95)}
    assert in_turn("abcd", lambda item: RecordPosition(*items[item])) == ["b", "d", "c", "a"]


def test_position_is_formatted_as_three_numbers() -> None:
    assert str(RecordPosition(1, 20, 300)) == "1-20-300"


def test_position_of_a_time_changes_only_the_timestamp() -> None:
    position = RecordPosition(1, 20, 300)
    assert RecordPosition.of_time(400) == RecordPosition(-1, -1, 400)
    assert position.after(RecordPosition.of_time(400)) == RecordPosition(1, 20, 400)
    assert position.after(RecordPosition.of_time(200)) == position
    assert position.after(RecordPosition(0, 2, 200)) == RecordPosition(0, 2, 300)


@pytest.mark.parametrize("timestamp", [-1, 0, 1])
def test_first_record_may_lack_a_timestamp(timestamp: int) -> None:
    assert Seen().after(RecordPosition(0, 0, timestamp)).marks == {0: (0, timestamp)}


@given(positions, positions)
def test_each_partition_has_its_own_mark(one: RecordPosition, other: RecordPosition) -> None:
    first = Seen().after(one)
    assert first.marks == {one.partition: (one.offset, one.timestamp)}
    if one.partition != other.partition:
        assert first.after(other).marks == {p.partition: (p.offset, p.timestamp) for p in (one, other)}


@pytest.mark.parametrize(
    ("offset", "timestamp", "is_covered", "mark"),
    [
        (10, 50, True, (10, 50)),
        (9, 49, True, (10, 50)),
        (9, 50, True, (10, 50)),
        (11, 50, False, (11, 50)),
        (11, 49, False, (11, 50)),
        (11, 51, False, (11, 51)),
        # The topic was recreated: offsets restart.
        (10, 51, False, (10, 51)),
        (0, 51, False, (0, 51)),
    ],
)
def test_positions_relative_to_a_mark(offset: int, timestamp: int, is_covered: bool, mark: tuple[int, int]) -> None:
    seen, position = Seen({3: (10, 50)}), RecordPosition(3, offset, timestamp)
    assert seen.covers(position) is is_covered
    assert seen.after(position).marks == {3: mark}


def test_parts_keep_order_and_limit() -> None:
    assert list(in_parts([], 3)) == []
    assert list(in_parts(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(in_parts([1, 2, 9, 3, 0, 0, 1], 3, int)) == [[1, 2], [9], [3, 0, 0], [1]]
