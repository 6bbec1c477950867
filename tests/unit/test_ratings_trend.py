"""Rating trends: their weeks, and the tally of each."""

import time as clock
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis.strategies import datetimes

from domain.ratings import RatingTally
from domain.ratings_trend import WEEKS, Trend, Week, mondays, trend

MONDAY = datetime(2026, 3, 9, tzinfo=UTC)
WEEK = timedelta(days=7)


@given(datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1)))
def test_last_week_is_the_current_one(naive: datetime) -> None:
    now = naive.replace(tzinfo=UTC)
    weeks = list(mondays(now))
    assert len(weeks) == WEEKS
    assert {(monday.weekday(), monday.timetz()) for monday in weeks} == {(0, time(tzinfo=UTC))}
    assert weeks == [weeks[-1] - ago * WEEK for ago in reversed(range(WEEKS))]
    assert weeks[-1] <= now < weeks[-1] + WEEK


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "JST-9")
        clock.tzset()
        yield
    clock.tzset()


@pytest.mark.parametrize("hours", [-9, 0, 9])
@pytest.mark.usefixtures("in_tokyo")
def test_weeks_begin_on_monday_in_utc_in_any_time_zone(hours: int) -> None:
    zone = timezone(timedelta(hours=hours))
    assert [*mondays(MONDAY.astimezone(zone))][-1] == MONDAY
    assert [*mondays((MONDAY - timedelta(microseconds=1)).astimezone(zone))][-1] == MONDAY - WEEK


def test_week_without_reviews_has_an_empty_tally() -> None:
    tally = RatingTally.of([300, 400])
    shown = trend(MONDAY, {MONDAY - 8 * WEEK: tally, MONDAY + timedelta(hours=1): tally})
    assert shown == Trend(
        tuple(Week(since, tally if since == MONDAY - 8 * WEEK else RatingTally()) for since in mondays(MONDAY))
    )
    assert not shown.is_partial
    assert trend(MONDAY, {}, is_partial=True).is_partial
