"""Cron expressions as crontab(5) has them: minute, hour, day of month, month, day of week; in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger

_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAY_RANGE: Final = re.compile(r"(?:\*|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>[1-9]\d?))?", re.ASCII)
_SOME_DAY: Final = datetime(2020, 1, 1, tzinfo=UTC)


class InvalidCronError(ValueError):
    """The expression can't be used; the message says why."""


def cron_trigger(expression: str) -> BaseTrigger:
    """When the expression fires. Raises InvalidCronError, also for one that never does (the 31st of February).

    As in crontab(5), and unlike APScheduler's own reading: 0 and 7 are Sunday, and where both a day of month and a
    day of week are given, either will do.
    """
    fields = expression.split()
    if len(fields) != 5:
        raise InvalidCronError("Must be a cron expression of five fields, like */15 * * * *")
    minute, hour, day, month, weekday = fields
    weekdays = _weekdays(weekday)
    either = not day.startswith("*") and not weekday.startswith("*")
    try:
        triggers = [
            CronTrigger(minute=minute, hour=hour, day=day, month=month, day_of_week=weekdays, timezone=UTC)
            for day, weekdays in ([(day, "*"), ("*", weekdays)] if either else [(day, weekdays)])
        ]
    except ValueError as error:
        raise InvalidCronError(f"Not a cron expression: {error}") from error
    trigger = OrTrigger(triggers) if either else triggers[0]
    if next_time(trigger, _SOME_DAY) is None:
        raise InvalidCronError("The expression never fires")
    return trigger


def next_time(trigger: BaseTrigger, after: datetime) -> datetime | None:
    """The first moment at which it fires, not before this one; None when it never does."""
    found: datetime | None = trigger.get_next_fire_time(None, after)
    return found


def _weekdays(field: str) -> str:
    """The field with names of days, which mean the same to everyone."""
    if field == "*":
        return field
    found: set[int] = set()
    for part in field.lower().split(","):
        match = _DAY_RANGE.fullmatch(part)
        if match is None:
            raise InvalidCronError(f"Not a day of week: {part}")
        first = _day(match["first"]) if match["first"] else 0
        if match["last"]:
            last = _day(match["last"])
            last = 7 if last == 0 and first else last
        else:
            # "2/3" is every third day from Tuesday on; "2" is Tuesday.
            last = 6 if match["step"] or not match["first"] else first
        if last < first:
            raise InvalidCronError(f"The last day of week comes before the first: {part}")
        found.update(day % 7 for day in range(first, last + 1, int(match["step"] or 1)))
    return ",".join(_DAYS[day] for day in sorted(found))


def _day(text: str) -> int:
    """0 or 7 for Sunday, 1 for Monday."""
    if text in _DAYS:
        return _DAYS.index(text)
    if re.fullmatch("[0-7]", text):
        return int(text)
    raise InvalidCronError(f"Not a day of week: {text}")
