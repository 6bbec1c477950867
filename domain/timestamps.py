"""Moments as the interface writes them."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_REMEMBERED: Final = 4_096


# A moment is written several times for each review: in its events, its state, its answers.
@lru_cache(maxsize=_REMEMBERED)
def timestamp(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds: 2022-10-04T03:46:43.433Z. The moment must be aware."""
    text = moment.isoformat("T", "milliseconds")
    return f"{text[:-6]}Z" if text[-6:] == "+00:00" else timestamp(moment.astimezone(UTC))


def in_utc(moment: datetime) -> datetime:
    """The moment in UTC; a naive one is in UTC already. Raises OverflowError outside of the years 1 to 9999."""
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def moment_in(text: str) -> datetime:
    """The moment of an ISO 8601 text, in UTC unless it says otherwise; a day alone is its first moment.

    Raises ValueError or OverflowError.
    """
    return in_utc(datetime.fromisoformat(text))


# The time of a record becomes one of its review, of its event and of its state.
@lru_cache(maxsize=_REMEMBERED)
def from_milliseconds(milliseconds: int) -> datetime:
    """The moment so many milliseconds after the beginning of 1970, in UTC. Raises OverflowError after the year 9999."""
    return EPOCH + timedelta(milliseconds=milliseconds)


def first_millisecond(moment: datetime) -> datetime:
    """The first whole millisecond that isn't before a moment: the least that what is stored since then can have. The
    last moment of all has none behind it."""
    below = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    return below if below == moment else a_millisecond_after(below)


def a_millisecond_after(moment: datetime) -> datetime:
    """The moment a millisecond later. The last millisecond of all has none behind it: it stays."""
    last = datetime.max.replace(tzinfo=moment.tzinfo)
    return moment if last - moment < timedelta(milliseconds=1) else moment + timedelta(milliseconds=1)


def milliseconds(moment: datetime) -> int:
    """The milliseconds from the beginning of 1970 to a moment, which must be aware."""
    return (moment - EPOCH) // timedelta(milliseconds=1)
