"""Cron expressions in the format of crontab(5): minute, hour, day of month, month, day of week; in UTC."""

import re
from datetime import UTC, datetime
from typing import Final

from cronsim import CronSim, CronSimError

_FIELDS: Final = 5
_UP_TO_SUNDAY: Final = re.compile(r"(?<!\b0)(?<!\bsun)-(?:0|sun)\b", re.IGNORECASE)
_ANY_TIME: Final = datetime(2020, 1, 1, tzinfo=UTC)


class InvalidCronError(ValueError):
    """The expression can't be used; the message says why."""


def check_cron(expression: str) -> None:
    """Raise InvalidCronError for an expression that can't be used, or never fires (the 31st of February)."""
    next_time(expression, _ANY_TIME)


def next_time(expression: str, after: datetime) -> datetime:
    """The first time after `after`, in UTC, at which the expression fires. Raises InvalidCronError.

    Both 0 and 7 are Sunday. If day of month and day of week are both given, either one matches.
    """
    return next_times(expression, after, 1)[0]


def next_times(expression: str, after: datetime, count: int) -> list[datetime]:
    """The first `count` times after `after` at which the expression fires. Raises InvalidCronError."""
    try:
        schedule = _schedule(expression, after)
        return [next(schedule) for _ in range(count)]
    except StopIteration:
        raise InvalidCronError("The expression never fires") from None


def in_words(expression: str) -> str:
    """The expression in English, like "At 09:00 on Monday through Friday". Raises InvalidCronError."""
    # CronSim says "and" between the two kinds of days, though it fires on either.
    return _schedule(expression, _ANY_TIME).explain().replace(" and on ", " or on ")


def _schedule(expression: str, after: datetime) -> CronSim:
    fields = expression.split()
    if len(fields) != _FIELDS:
        raise InvalidCronError("Must be a cron expression of five fields, like */15 * * * *")
    # CronSim numbers Sunday 0, which can't be the last day of a range; 7 can.
    fields[-1] = _UP_TO_SUNDAY.sub("-7", fields[-1])
    try:
        return CronSim(" ".join(fields), after)
    except CronSimError as error:
        raise InvalidCronError(f"Not a cron expression: {error}") from error
