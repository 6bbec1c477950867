"""Statuses of returns: those of the settings, two of which have a meaning to the service."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from domain.invisible import is_blank


class ReturnStatus(StrEnum):
    """The statuses of returns, unless the settings list others. Any status may follow any other."""

    NEW = "New"
    APPROVED = "Approved"
    PROCESSING = "Processing"
    COMPLETED = "Completed"
    CANCELED = "Canceled"


DEFAULT_STATUSES: Final = tuple(status.value for status in ReturnStatus)
FIXED_STATUSES: Final = (ReturnStatus.NEW, ReturnStatus.CANCELED)
"""Statuses with a meaning: a return begins as New, and a Canceled one takes no quantity."""


def usable_statuses(names: Sequence[str]) -> tuple[str, ...]:
    """The statuses for returns, those of `ReturnStatus` spelled as there. Raises ValueError."""
    statuses = tuple(status_named(name, DEFAULT_STATUSES) or name.strip() for name in names)
    if any(map(is_blank, statuses)):
        raise ValueError("A status must not be empty")
    if len({status.casefold() for status in statuses}) < len(statuses):
        raise ValueError("A status is given twice; letter case is ignored")
    missing = [status for status in FIXED_STATUSES if status not in statuses]
    if missing:
        raise ValueError(f"{' and '.join(missing)} must be included")
    return statuses


def status_named(name: str, statuses: Iterable[str]) -> str | None:
    """The status with this name in any letter case; None if there is none."""
    return next((status for status in statuses if status.casefold() == name.strip().casefold()), None)
