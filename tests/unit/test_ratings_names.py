"""The texts by which rated objects are found and listed, and the weeks of their trends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis.strategies import datetimes, text

from domain.ratings import RatingTally
from domain.ratings_names import KEY_LENGTH, folded, list_key, place_in_search, search_keys
from domain.ratings_trend import WEEKS, mondays, trend


@pytest.mark.parametrize(
    ("said", "found"),
    [("  Canon  EOS-R5 ", "canon eos r5"), ("Café Łódź", "cafe łodz"), ("STRASSE", "strasse"), ("!?", ""), ("", "")],
)
def test_folded(said: str, found: str) -> None:
    assert folded(said) == found


@given(text(), text(min_size=1))
def test_an_object_is_found_by_its_id_and_from_each_word_on(name: str, id: str) -> None:
    keys = search_keys(name, id)
    assert folded(id) in keys
    for word in folded(name).split()[:12]:
        assert any(key.startswith(word) for key in keys)
    assert all(len(key) <= KEY_LENGTH for key in keys)


@given(text())
def test_what_is_folded_stays(said: str) -> None:
    assert folded(folded(said)) == folded(said)


def test_keys() -> None:
    assert search_keys("Canon EOS R5", "camera-1") == ["camera 1", "canon eos r5", "eos r5", "r5"]
    assert search_keys(None, "camera-1") == ["camera 1"]
    assert (list_key(None, "Camera-1"), list_key("Émile", "x")) == ("camera 1", "emile")
    found = sorted(["red camera", "camera bag", "camera"], key=lambda place: place_in_search("cam", place))
    assert found == ["camera", "camera bag", "red camera"]


@given(datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1)))
def test_weeks_end_with_the_present_one(naive: datetime) -> None:
    now = naive.replace(tzinfo=UTC)
    weeks = list(mondays(now))
    assert len(weeks) == WEEKS
    assert all((monday.weekday(), monday.hour) == (0, 0) for monday in weeks)
    assert weeks[-1] <= now < weeks[-1] + timedelta(days=7)
    assert [week.tally.count for week in trend(now, {weeks[3]: RatingTally(2, 700)}).weeks] == [0, 0, 0, 2, *[0] * 8]
