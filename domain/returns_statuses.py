"""Statuses of returns: those of the settings, two of which have a meaning to the service."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final


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


class InvalidStatusesError(ValueError):
    """The list of statuses can't be used; the message says why."""


def usable_statuses(names: Sequence[str]) -> tuple[str, ...]:
    """The statuses for returns, those of `ReturnStatus` spelled as there. Raises InvalidStatusesError."""
    statuses = tuple(status_named(name, DEFAULT_STATUSES) or name.strip() for name in names)
    if not all(statuses):
        raise InvalidStatusesError("A status has a name")
    if len({status.casefold() for status in statuses}) < len(statuses):
        raise InvalidStatusesError("Name each status once; letter case makes no difference")
    missing = [status for status in FIXED_STATUSES if status not in statuses]
    if missing:
        raise InvalidStatusesError(f"{' and '.join(missing)} can't be left out")
    return statuses


def status_named(name: str, statuses: Iterable[str]) -> str | None:
    """The status with this name in any letter case; None if there is none."""
    return next((status for status in statuses if status.casefold() == name.strip().casefold()), None)
