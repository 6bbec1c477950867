"""A cache of the names of objects, one for each worker."""

from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Final

from domain.entity_types import EntityTypes
from domain.ratings import Entity
from domain.reviews import Review

LIFETIME_S: Final = 600.0
"""Seconds for which a name is cached; objects are renamed now and then."""

CAPACITY: Final = 10_000


class KnownNames:
    """Gives new reviews the names of their objects, or marks them as wanting one.

    Only this cache is read, so that no lookup delays a submission. Beyond CAPACITY the oldest name is dropped.
    """

    def __init__(self, types: EntityTypes, clock: Callable[[], float] = monotonic) -> None:
        self._types = types
        self._clock = clock
        self._names: dict[Entity, tuple[str, float]] = {}

    def named(self, review: Review) -> Review:
        """The review with a name, or marked as wanting one; unchanged if it has one, or if its type has no resolver."""
        if review.entity_name or self._types.resolver(review.entity.type) is None:
            return review
        name = self._name(review.entity)
        return replace(review, entity_name=name, name_wanted=name is None)

    def learn(self, entity: Entity, name: str) -> None:
        """Cache a name."""
        self._names.pop(entity, None)
        self._names[entity] = (name, self._clock() + LIFETIME_S)
        if len(self._names) > CAPACITY:
            del self._names[next(iter(self._names))]

    def _name(self, entity: Entity) -> str | None:
        name, expiry = self._names.get(entity, ("", 0.0))
        return name if name and expiry > self._clock() else None
