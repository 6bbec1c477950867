"""Timestamps: ISO 8601, milliseconds since 1970, and arithmetic within the years 1 to 9999."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_REMEMBERED: Final = 4_096

_ISO: Final = re.compile(r"[0-9]{4}(-?[0-9]{2}-?[0-9]{2}|-?W[0-9]{2}(-?[0-9])?)([Tt ].+)?")
"""A date, and a time after a separator. Python takes any character for one: the offset of a date alone,
2022-10-04+02:00 or 2022-10-04-0200, for the time 02:00."""


# The same moment is formatted several times for each review: in its events, its state, its responses.
@lru_cache(maxsize=_REMEMBERED)
def timestamp(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds: 2022-10-04T03:46:43.433Z. The moment must be aware."""
    text = moment.isoformat("T", "milliseconds")
    return f"{text[:-6]}Z" if text[-6:] == "+00:00" else timestamp(moment.astimezone(UTC))


def in_utc(moment: datetime) -> datetime:
    """The moment in UTC; a naive one is taken as UTC. Raises OverflowError outside of the years 1 to 9999."""
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def moment_in(text: str) -> datetime:
    """The moment of an ISO 8601 text, taken as UTC unless it has an offset; a date alone is its first moment.

    Raises ValueError or OverflowError.
    """
    if not _ISO.fullmatch(text):
        raise ValueError("A date and its time are separated by T or a space")
    return in_utc(datetime.fromisoformat(text))


# The time of a record is converted for its review, its event and its state.
@lru_cache(maxsize=_REMEMBERED)
def from_milliseconds(milliseconds: int) -> datetime:
    """The moment this many milliseconds after the start of 1970, in UTC. Raises OverflowError after the year 9999."""
    return EPOCH + timedelta(milliseconds=milliseconds)


def first_millisecond(moment: datetime) -> datetime:
    """The first whole millisecond that isn't before a moment: the lower bound of times stored since then. Within the
    last millisecond of the year 9999, that millisecond itself."""
    below = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    return below if below == moment else a_millisecond_after(below)


def a_millisecond_after(moment: datetime) -> datetime:
    """The moment one millisecond later; unchanged within the last millisecond of the year 9999."""
    return moment if _last(moment) - moment < timedelta(milliseconds=1) else moment + timedelta(milliseconds=1)


def moment_after(moment: datetime, time: timedelta) -> datetime:
    """The moment that much later, but at most the last one of the year 9999."""
    return moment + min(time, _last(moment) - moment)


def _last(moment: datetime) -> datetime:
    return datetime.max.replace(tzinfo=moment.tzinfo)


def milliseconds(moment: datetime) -> int:
    """The whole milliseconds from the start of 1970 to a moment, which must be aware."""
    return (moment - EPOCH) // timedelta(milliseconds=1)
