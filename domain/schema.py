"""The schema of the database: its migration steps, and the versions of the service that run on it.

A step expands (adds what the next version needs, while the previous version still runs) or contracts (removes what only
older versions need). So a version can be rolled out beside the previous one, and rolled back.
"""

from enum import StrEnum
from itertools import takewhile
from typing import Final, NamedTuple


class Step(NamedTuple):
    """A step to a schema, with a sentence that describes it."""

    number: int
    sentence: str
    least: int
    """The lowest schema whose services run during and after the step: the previous one unless it contracts."""


_PLACES: Final = 2
_QUEUE: Final = 3

STEPS: Final = (
    Step(1, "Count the stars of ratings that are older than histograms.", 0),
    Step(_PLACES, "Give reviews ids that contain their place, and publish their moderation directly to it.", _PLACES),
    Step(_QUEUE, "Find unapproved reviews by an index of their own, which approvals don't touch.", _QUEUE),
)
"""All steps in order, numbered from 1 without gaps."""

NEWEST: Final = len(STEPS)
"""The schema that this version of the service writes."""

_NEW_STEPS: Final = 3
"""Number of steps that are new in this release, which still runs on the schema of the previous one."""


class SchemaMark(NamedTuple):
    """The mark in the database: all steps up to `version` are done, and services that know schema `least` run on it.

    A database without a mark is older than marks: version 0.
    """

    version: int = 0
    least: int = 0

    @property
    def has_places(self) -> bool:
        """True if new ids contain places, and messages about objects go to these. Processes that start learn from it
        how the others work."""
        return self.version >= _PLACES

    @property
    def has_queue(self) -> bool:
        """True if every unapproved review is in the queue, by which lists find it."""
        return self.version >= _QUEUE


class Compatibility(StrEnum):
    """The relation of a service to the schema of its database."""

    NEWEST = "newest"
    BEHIND = "behind"
    AHEAD = "ahead"
    TOO_OLD = "too-old"
    TOO_NEW = "too-new"


def compatibility(mark: SchemaMark, known: int = NEWEST) -> Compatibility:
    """The compatibility of a service that writes schema `known`: it runs on that one, on the previous release's, and
    on later ones whose steps keep what it needs."""
    if mark.least > known:
        return Compatibility.TOO_NEW
    if mark.version > known:
        return Compatibility.AHEAD
    if mark.version == known:
        return Compatibility.NEWEST
    return Compatibility.BEHIND if mark.version >= known - _NEW_STEPS else Compatibility.TOO_OLD


def mark_when_begun(mark: SchemaMark, step: Step) -> SchemaMark:
    """The mark after a step has begun: services that it leaves behind must not start any more."""
    return SchemaMark(mark.version, max(mark.least, step.least))


def mark_when_done(mark: SchemaMark, step: Step) -> SchemaMark:
    """The mark after a step is done."""
    return SchemaMark(max(mark.version, step.number), max(mark.least, step.least))


def missing_steps(mark: SchemaMark, *, compatible: bool = False) -> tuple[Step, ...]:
    """The steps that are still to be done, in order; if `compatible`, only those before the first that contracts."""
    missing = (step for step in STEPS if step.number > mark.version)
    return tuple(takewhile(lambda step: not compatible or step.least < step.number, missing))


def fresh_mark() -> SchemaMark:
    """The mark of an empty database."""
    return SchemaMark(NEWEST, max(step.least for step in STEPS))


def refusal(mark: SchemaMark, known: int = NEWEST) -> str | None:
    """The reason why this version can't run on this database, with the remedy; None if it can."""
    match compatibility(mark, known):
        case Compatibility.TOO_NEW:
            return (
                f"The database has schema {mark.version}, which requires a version of Plaudit that knows "
                f"at least schema {mark.least}; this one knows {known}. Run a newer version."
            )
        case Compatibility.TOO_OLD:
            return (
                f"The database has schema {mark.version}; this version of Plaudit runs on schemas "
                f"{known - _NEW_STEPS} to {known}. Run `plaudit migrate` of this version first."
            )
        case _:
            return None
