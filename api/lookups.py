"""What nearly every request looks up: ratings, stores and the general settings, together with the other requests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from api.together import Kept, Together
from domain.ratings import Entity, RatingTally
from domain.stores import GeneralSettings, Store
from storage.ratings import RatingRepository
from storage.stores import StoreRepository

_AGE_S: Final = 1.0


class Lookups:
    """Ratings are what the database holds when they are asked for, or later; stores and settings of up to a second ago,
    but for what this process has seen itself since: see docs/decisions/0014-ratings-are-gathered-not-kept.md.
    """

    def __init__(self, ratings: RatingRepository, stores: StoreRepository) -> None:
        async def tallies(entities: Collection[Entity]) -> Mapping[Entity, Mapping[str | None, RatingTally]]:
            ids_of_type: dict[str, list[str]] = {}
            for entity in entities:
                ids_of_type.setdefault(entity.type, []).append(entity.id)
            found: dict[Entity, Mapping[str | None, RatingTally]] = {}
            for type, ids in ids_of_type.items():
                of_type = await ratings.of_entities(type, ids)
                found |= {Entity(type, id): tallies for id, tallies in of_type.items()}
            return found

        async def general(_: Collection[None]) -> Mapping[None, GeneralSettings]:
            return {None: await stores.general()}

        self._tallies = Together(tallies)
        self._stores = Kept(stores.of_ids, _AGE_S)
        self._general = Kept(general, _AGE_S)

    async def tallies(
        self, entity_type: str, entity_ids: Collection[str]
    ) -> dict[Entity, Mapping[str | None, RatingTally]]:
        """The tallies of these objects by store, in the order of the ids; without approved reviews there is none."""
        return await self._tallies.of([Entity(entity_type, id) for id in entity_ids])

    async def stores(self, ids: Collection[str]) -> dict[str, Store]:
        """The registered ones among these stores, by id."""
        return await self._stores.of(ids)

    async def general(self) -> GeneralSettings:
        """The settings that hold for all stores."""
        return (await self._general.of([None]))[None]

    def forget(self) -> None:
        """Look stores and settings up anew: they have changed, or a client has been told what they are by now."""
        self._stores.forget()
        self._general.forget()
