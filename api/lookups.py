"""Look-ups of ratings, stores and general settings; concurrent requests share one query."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from api.ratings.rows import RatingRow, rating_rows
from api.web.problems import unavailable
from api.web.shared_queries import CachedQueries, SharedQueries
from domain.objects import ObjectKey, is_closed
from domain.ratings import Entity, RatingTally, TallyKey, ids_by_type
from domain.stores import GeneralSettings, Store
from storage.database import result_or_default, short_time_limit
from storage.objects import ObjectRepository
from storage.ratings.repository import RatingRepository
from storage.reviews.ids import IdHolder
from storage.reviews.repository import ReviewRepository
from storage.shapes import StoredDocumentError
from storage.stores import StoreRepository

_AGE_S: Final = 1.0

_FEW: Final = 1_000
"""Maximum number of ratings for which no memory is reserved."""

_RATING_BYTES: Final = 1_024
"""Bytes in memory for a rating: from MongoDB, as a row, in the response."""


class Lookups:
    """Ratings and holders of ids are never older than their request. Stores and settings may be a second old, but not
    older than what this process has seen itself: see docs/decisions/0014-ratings-are-gathered-not-kept.md."""

    def __init__(
        self,
        ratings: RatingRepository,
        stores: StoreRepository,
        objects: ObjectRepository,
        reviews: ReviewRepository,
    ) -> None:
        self._rating_repository, self._store_repository = ratings, stores
        self._objects, self._reviews = objects, reviews
        self._ratings = SharedQueries(partial(self._rows_of, with_histogram=False))
        self._histograms = SharedQueries(partial(self._rows_of, with_histogram=True))
        self._tallies = SharedQueries(self._tallies_in_stores)
        self._holders = SharedQueries(self._holders_soon)
        self._is_any_closed = CachedQueries(self._any_closed, _AGE_S)
        self._stores = CachedQueries(stores.of_ids_or_errors, _AGE_S)
        # An object can have ratings in thousands of stores, whose rules together are too large to be read for it.
        self._shown_stores = CachedQueries(partial(stores.of_ids_or_errors, with_rules=False), _AGE_S)
        self._general = CachedQueries(self._settings, _AGE_S)
        self._number_of_stores = CachedQueries(self._count_stores, _AGE_S)

    async def ratings(
        self, entity_type: str, entity_ids: Sequence[str], *, with_histogram: bool
    ) -> dict[tuple[str, str], list[RatingRow]]:
        """The ratings of these objects, in the order of the ids; objects without approved reviews are left out."""
        wanted = self._histograms if with_histogram else self._ratings
        return await wanted.of([(entity_type, id) for id in entity_ids])

    async def bytes_of_ratings(self, entity_type: str, entity_ids: Collection[str]) -> int:
        """About the bytes in memory of the ratings of these objects, 0 for few. They are counted only if there are so
        many stores that the ratings can be many: an object has one in each of them, and one without a store."""
        stores = (await self._number_of_stores.of([None]))[None]
        if len(entity_ids) * (stores + 1) <= _FEW:
            return 0
        count = await self._rating_repository.count_of_entities(entity_type, entity_ids)
        return count * _RATING_BYTES if count > _FEW else 0

    async def tallies(self, store_id: str, entity_type: str, entity_ids: Collection[str]) -> dict[str, RatingTally]:
        """The tallies of these objects in a store by id, including histograms; objects without approved reviews are
        left out."""
        found = await self._tallies.of([TallyKey(Entity(entity_type, id), store_id) for id in entity_ids])
        return {key.entity.id: tally for key, tally in found.items()}

    async def stores(self, ids: Iterable[str | None]) -> dict[str, Store]:
        """The registered ones of these stores, by id and without their moderation rules, to be shown; damaged ones are
        left out. None stands for no store."""
        found = await self._shown_stores.of({id for id in ids if id is not None})
        return {id: store for id, store in found.items() if isinstance(store, Store)}

    async def stores_for_rules(self, ids: Collection[str]) -> dict[str, Store]:
        """The registered ones of these stores, by id, for what depends on their rules; while the database is
        unavailable, the cached ones, as consumers check again. Raises ProblemError (503) if one of them isn't cached,
        StoredDocumentError if one is damaged."""
        found = await result_or_default(self._stores.of(set(ids)), None)
        if found is None:
            found = self._stores.remembered(ids)
            if len(found) < len(set(ids)):
                raise unavailable("MongoDB, which holds the rules of the store,")
        stores: dict[str, Store] = {}
        for id, store in found.items():
            if isinstance(store, StoredDocumentError):
                raise store.with_traceback(None)
            stores[id] = store
        return stores

    async def holders(self, ids: Collection[str]) -> Mapping[str, IdHolder]:
        """The holders of these ids; free ids are left out. Raises StoredDocumentError or ValueError if one is
        damaged."""
        try:
            return await self._holders.of(ids)
        except (StoredDocumentError, ValueError):
            # The damaged one may be of another request.
            return await self._reviews.holders(ids)

    async def closed(self, keys: Collection[ObjectKey]) -> set[ObjectKey]:
        """The closed ones of these objects, which take no reviews. Queried only while some object is closed. Those
        whose facts are damaged are left out: consumers check again."""
        if not (await self._is_any_closed.of([None]))[None]:
            return set()
        facts = await self._objects.undamaged(keys)
        return {key for key in keys if is_closed(facts, key)}

    async def general(self) -> GeneralSettings:
        """The settings that apply to all stores."""
        return (await self._general.of([None]))[None]

    def forget(self) -> None:
        """Read stores and settings anew: they have changed, or a client has seen newer ones."""
        self._stores.forget()
        self._shown_stores.forget()
        self._general.forget()
        self._is_any_closed.forget()

    async def _holders_soon(self, ids: Collection[str]) -> Mapping[str, IdHolder]:
        """The holders, within SOON_S: callers wait no longer, and a query that hangs must not block the next one."""
        with short_time_limit():
            return await self._reviews.holders(ids)

    async def _tallies_of(
        self, entities: Iterable[tuple[str, str]], stores: Collection[str] | None = None, *, with_histogram: bool
    ) -> Mapping[Entity, Mapping[str | None, RatingTally]]:
        of_entities = partial(self._rating_repository.of_entities, stores=stores, with_histogram=with_histogram)
        return {
            Entity(type, id): tallies
            for type, ids in ids_by_type(entities).items()
            for id, tallies in (await of_entities(type, ids)).items()
        }

    async def _tallies_in_stores(self, keys: Collection[TallyKey]) -> Mapping[TallyKey, RatingTally]:
        """The tallies of these objects in any of these stores."""
        stores = {key.store_id for key in keys if key.store_id is not None}
        found = await self._tallies_of({key.entity for key in keys}, stores, with_histogram=True)
        return {TallyKey(entity, id): tally for entity, tallies in found.items() for id, tally in tallies.items()}

    async def _rows_of(
        self, entities: Collection[tuple[str, str]], *, with_histogram: bool
    ) -> Mapping[tuple[str, str], list[RatingRow]]:
        found = await self._tallies_of(entities, with_histogram=with_histogram)
        of_all = await self.general()
        of_stores = await self.stores({id for tallies in found.values() for id in tallies if id is not None})
        return {
            entity: rating_rows(Entity(*entity), tallies, of_stores, of_all, with_histogram=with_histogram)
            for entity, tallies in found.items()
        }

    async def _settings(self, _: Collection[None]) -> Mapping[None, GeneralSettings]:
        return {None: await self._store_repository.general()}

    async def _count_stores(self, _: Collection[None]) -> Mapping[None, int]:
        return {None: await self._store_repository.count()}

    async def _any_closed(self, _: Collection[None]) -> Mapping[None, bool]:
        return {None: await self._objects.is_any_closed()}
