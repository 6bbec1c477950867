"""What nearly every request looks up: ratings, stores and the general settings, together with the other requests."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from api.together import Together
from domain.ratings import Entity, RatingTally, TallyKey
from domain.stores import GeneralSettings, Store
from storage.ratings import RatingRepository
from storage.stores import StoreRepository


class Lookups:
    """Each answer is what the database holds when it is asked for, or later."""

    def __init__(self, ratings: RatingRepository, stores: StoreRepository) -> None:
        async def tallies(entities: Collection[Entity]) -> Mapping[Entity, Mapping[TallyKey, RatingTally]]:
            ids_of_type: dict[str, list[str]] = {}
            for entity in entities:
                ids_of_type.setdefault(entity.type, []).append(entity.id)
            found: dict[Entity, dict[TallyKey, RatingTally]] = {}
            for part in await asyncio.gather(*(ratings.of_entities(type, ids) for type, ids in ids_of_type.items())):
                for key, tally in part.items():
                    found.setdefault(key.entity, {})[key] = tally
            return found

        async def general(_: Collection[None]) -> Mapping[None, GeneralSettings]:
            return {None: await stores.general()}

        self._tallies = Together(tallies)
        self._stores = Together(stores.of_ids)
        self._general = Together(general)

    async def tallies(self, entity_type: str, entity_ids: Collection[str]) -> dict[TallyKey, RatingTally]:
        """The tallies of these objects in all stores; an object without approved reviews has none."""
        found = await self._tallies.of([Entity(entity_type, id) for id in entity_ids])
        return {key: tally for tallies in found.values() for key, tally in tallies.items()}

    async def stores(self, ids: Collection[str]) -> dict[str, Store]:
        """The registered ones among these stores, by id."""
        return await self._stores.of(ids)

    async def general(self) -> GeneralSettings:
        """The settings that hold for all stores."""
        return (await self._general.of([None]))[None]
