"""The trend of an object's rating: its approved reviews week by week."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from domain.ratings import RatingTally

WEEKS: Final = 12
_WEEK: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Week:
    """The approved reviews created in the seven days from a Monday, 0:00 UTC."""

    since: datetime
    tally: RatingTally


@dataclass(frozen=True, slots=True)
class Trend:
    """The last WEEKS weeks, the present one last."""

    weeks: tuple[Week, ...]
    is_partial: bool = False
    """True if older weeks have more reviews than were counted."""


def mondays(now: datetime) -> Iterator[datetime]:
    """The beginnings of the last WEEKS weeks in UTC, oldest first."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    monday = today - timedelta(days=today.weekday())
    return (monday - ago * _WEEK for ago in reversed(range(WEEKS)))


def trend(now: datetime, counted: Mapping[datetime, RatingTally], *, is_partial: bool = False) -> Trend:
    """The trend from tallies by the beginning of their week; a week may be missing if it has no reviews."""
    return Trend(tuple(Week(since, counted.get(since, RatingTally())) for since in mondays(now)), is_partial)
