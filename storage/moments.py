"""Moments to the microsecond: MongoDB's dates have milliseconds only, and two events of one have an order; and the one
clock that all processes have in common."""

from datetime import UTC, datetime, timedelta
from typing import Final

from domain.timestamps import EPOCH
from storage.database import Database

_MICROSECOND: Final = timedelta(microseconds=1)


def microseconds(moment: datetime) -> int:
    """The stored form of a moment: microseconds since 1970."""
    return (moment - EPOCH) // _MICROSECOND


def moment(microseconds: int) -> datetime:
    """The moment that was stored, in UTC."""
    return EPOCH + microseconds * _MICROSECOND


async def server_time(database: Database) -> datetime:
    """The moment by MongoDB's clock: those of processes may differ by hours."""
    now: datetime = (await database.command("hello"))["localTime"]
    return now if now.tzinfo else now.replace(tzinfo=UTC)
