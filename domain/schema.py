"""The schema of the database: its steps, and the versions of the service that run on it.

A step expands (adds what the next version needs, and the version before runs on it) or contracts (takes away what only
older versions need). So one version can be rolled out beside the one before it, and rolled back.
"""

from enum import StrEnum
from itertools import takewhile
from typing import Final, NamedTuple


class Step(NamedTuple):
    """A step to a schema: its number, a sentence on it, and the least schema whose services run while it is made and
    after it, the one before unless it contracts."""

    number: int
    sentence: str
    least: int


_PLACES: Final = 2
_QUEUE: Final = 3

STEPS: Final = (
    Step(1, "Count the stars of ratings from before histograms were kept.", 0),
    Step(_PLACES, "Give reviews ids that tell their place, and send their moderation straight there.", _PLACES),
    Step(_QUEUE, "Find unapproved reviews by an index of their own, which approvals leave alone.", _QUEUE),
)
"""In their order, numbered from 1 on without a gap."""

NEWEST: Final = len(STEPS)
"""The schema that this version of the service writes."""

_OF_THIS_RELEASE: Final = 3
"""So many of the steps came with this release: it runs on the schema of the one before."""


class SchemaMark(NamedTuple):
    """The mark in the database: all steps up to `version` are made, and services that know schema `least` run on it.

    A database without a mark is from before there were any: version 0.
    """

    version: int = 0
    least: int = 0

    @property
    def has_places(self) -> bool:
        """True if the ids that we give tell places, and messages about objects go to them. All processes that start
        know by this what others do."""
        return self.version >= _PLACES

    @property
    def has_queue(self) -> bool:
        """True if every unapproved review is in the queue, by which lists find them."""
        return self.version >= _QUEUE


class Standing(StrEnum):
    """The relation of a service to the schema of its database."""

    NEWEST = "newest"
    BEHIND = "behind"
    AHEAD = "ahead"
    TOO_OLD = "too-old"
    TOO_NEW = "too-new"


def standing(mark: SchemaMark, known: int = NEWEST) -> Standing:
    """The standing of a service that writes schema `known`: it runs on that one, on that of the release before, and on
    later ones whose steps leave it what it needs."""
    if mark.least > known:
        return Standing.TOO_NEW
    if mark.version > known:
        return Standing.AHEAD
    if mark.version == known:
        return Standing.NEWEST
    return Standing.BEHIND if mark.version >= known - _OF_THIS_RELEASE else Standing.TOO_OLD


def begun(mark: SchemaMark, step: Step) -> SchemaMark:
    """The mark once a step has begun: services that it leaves behind must not start any more."""
    return SchemaMark(mark.version, max(mark.least, step.least))


def done(mark: SchemaMark, step: Step) -> SchemaMark:
    """The mark once a step is made."""
    return SchemaMark(max(mark.version, step.number), max(mark.least, step.least))


def missing_steps(mark: SchemaMark, *, compatible: bool = False) -> tuple[Step, ...]:
    """The steps that are still to be made, in their order; or those up to the first that contracts."""
    missing = (step for step in STEPS if step.number > mark.version)
    return tuple(takewhile(lambda step: not compatible or step.least < step.number, missing))


def fresh_mark() -> SchemaMark:
    """The mark of a database that nothing was written to yet."""
    return SchemaMark(NEWEST, max(step.least for step in STEPS))


def refusal(mark: SchemaMark, known: int = NEWEST) -> str | None:
    """The reason against running on this database, and the way on; None if there is none."""
    match standing(mark, known):
        case Standing.TOO_NEW:
            return (
                f"The database has schema {mark.version}, which takes a version of Plaudit that knows schema "
                f"{mark.least} at least; this one knows {known}. Run a newer version."
            )
        case Standing.TOO_OLD:
            return (
                f"The database has schema {mark.version}; this version of Plaudit runs on schemas "
                f"{known - _OF_THIS_RELEASE} to {known}. Run `plaudit migrate` of this version first."
            )
        case _:
            return None
