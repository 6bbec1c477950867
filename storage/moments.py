"""Moments to the microsecond: MongoDB's dates have milliseconds only, and two events of one have an order."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from domain.timestamps import EPOCH

_MICROSECOND: Final = timedelta(microseconds=1)


def microseconds(moment: datetime) -> int:
    """The stored form of a moment: microseconds since 1970."""
    return (moment - EPOCH) // _MICROSECOND


def moment(microseconds: int) -> datetime:
    """The moment that was stored, in UTC."""
    return EPOCH + microseconds * _MICROSECOND
