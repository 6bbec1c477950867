"""Moments to the microsecond (MongoDB's dates have milliseconds, and two events within one have an order); and the
clock that all processes share."""

from datetime import UTC, datetime, timedelta
from typing import Final

from domain.timestamps import EPOCH
from storage.database import Database

_MICROSECOND: Final = timedelta(microseconds=1)


def microseconds(moment: datetime) -> int:
    """The stored form of a moment: microseconds since 1970."""
    return (moment - EPOCH) // _MICROSECOND


def moment(microseconds: int) -> datetime:
    """The moment in its stored form, in UTC."""
    return EPOCH + microseconds * _MICROSECOND


async def server_time(database: Database) -> datetime:
    """The time by MongoDB's clock: those of processes may differ by hours."""
    now: datetime = (await database.command("hello"))["localTime"]
    return now if now.tzinfo else now.replace(tzinfo=UTC)
