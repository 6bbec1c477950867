from hypothesis import given
from hypothesis import strategies as st

from domain.delivery import RecordPosition, Seen

positions = st.builds(RecordPosition, st.integers(0, 3), st.integers(0, 50), st.integers(1, 100))


@given(st.lists(positions))
def test_what_was_taken_into_account_is_covered(history: list[RecordPosition]) -> None:
    seen = Seen()
    for position in history:
        seen = seen.after(position)
        assert seen.covers(position)


@given(positions)
def test_nothing_is_covered_at_first(position: RecordPosition) -> None:
    assert not Seen().covers(position)


@given(positions)
def test_the_next_record_is_new(position: RecordPosition) -> None:
    seen = Seen().after(position)
    later = RecordPosition(position.partition, position.offset + 1, position.timestamp)
    other = RecordPosition(position.partition + 1, position.offset, position.timestamp)
    assert not seen.covers(later)
    assert not seen.covers(other)


def test_a_topic_created_anew_starts_from_the_beginning() -> None:
    seen = Seen().after(RecordPosition(0, 900, 1_000))
    first = RecordPosition(0, 0, 2_000)
    assert not seen.covers(first)
    seen = seen.after(first)
    assert seen.covers(first)
    assert not seen.covers(RecordPosition(0, 1, 2_001))
