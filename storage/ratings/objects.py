"""Rated objects: their names, by which they are found, and the trend of their ratings.

A tally gets its name after it is stored, so that approvals don't depend on it: one without is found by its missing
`listKey`. A change of a name sets `renamed` and increments `namings`, so that a name that was looked up before isn't
written afterwards.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from bson import ObjectId
from pymongo import ASCENDING, IndexModel

from domain.ratings import Entity, RatingTally, TallyKey, ids_by_type
from domain.ratings_names import list_key, search_keys
from domain.ratings_trend import Trend, mondays, trend
from domain.reviews import ReviewStatus
from storage.database import Database, Document, Session
from storage.keyset import SortValue, after_row
from storage.queries import in_stores, own_values, stored_bytes
from storage.ratings.repository import COLLECTION, key_from, tally_from
from storage.reviews.repository import COLLECTION as REVIEWS
from storage.reviews.shape import BY_ENTITY, HAS_TEXT_ID, NEWEST

INDEXES: Final = [
    IndexModel([("listKey", ASCENDING)], name="listed"),
    IndexModel([("storeId", ASCENDING), ("listKey", ASCENDING)], name="store_listed"),
    IndexModel([("searchKeys", ASCENDING)], name="searched"),
    IndexModel([("storeId", ASCENDING), ("searchKeys", ASCENDING)], name="store_searched"),
    IndexModel([("renamed", ASCENDING)], name="renamed", sparse=True),
]

MOST_FOUND: Final = 500
"""The maximum number of objects that a search examines."""

MOST_COUNTED: Final = 10_000
"""The maximum number of approved reviews that a trend counts, the newest ones."""

_NAMES_LOOKED_AT: Final = 100
_NAMED: Final = {"_id": 0, "entityId": 1, "storeId": 1, "entityName": 1}
_LAST: Final = "\U0010ffff"
_READ_AT_ONCE: Final = 1_000
"""Reviews that a search for names reads at a time; more than _NAMES_LOOKED_AT."""

BY_STORE: Final = [("storeId", ASCENDING)]
"""The order of the ratings of an object; each has another store."""

_NEWEST_OF_OBJECTS: Final = [*BY_ENTITY, *NEWEST]


@dataclass(frozen=True, slots=True)
class RatedObject:
    """The rating of an object in a store, or without one, with its name; `position` is its position in a list."""

    key: TallyKey
    tally: RatingTally
    name: str | None
    position: str


class UnnamedTally(NamedTuple):
    """A tally whose name is wanted, with its id in the database."""

    id: str
    key: TallyKey
    namings: int
    """The number of times that the name was asked for anew."""


class RatedObjectRepository:
    """Reads tallies by the names of their objects."""

    def __init__(self, database: Database) -> None:
        self._ratings = database[COLLECTION]
        self._reviews = database[REVIEWS]

    async def page(self, stores: Collection[str] | None, *, after: str = "", take: int) -> list[RatedObject]:
        """At most `take` rated objects in these stores, or in all and without one, by name, after a position."""
        condition = {"listKey": {"$gt": after}, **_rated_in(stores)}
        found = self._ratings.find(condition).sort("listKey", ASCENDING).limit(take)
        return [_rated_object(document) async for document in found]

    async def search(self, phrase: str, stores: Collection[str] | None) -> tuple[list[RatedObject], bool]:
        """Rated objects in these stores, or in all and without one, with a word that begins with this folded phrase, in
        no order, MOST_FOUND at most; and True if there are more."""
        # One key within both bounds: without `$elemMatch` two keys could meet them, and the index scan has one bound.
        begins = {"$elemMatch": {"$gte": phrase, "$lt": phrase + _LAST}}
        condition = {"searchKeys": begins, **_rated_in(stores)}
        found = [_rated_object(document) async for document in self._ratings.find(condition).limit(MOST_FOUND + 1)]
        return found[:MOST_FOUND], len(found) > MOST_FOUND

    async def of_entity(
        self,
        entity: Entity,
        stores: Collection[str] | None,
        *,
        after: Sequence[SortValue] | None,
        take: int | None,
    ) -> list[RatedObject]:
        """The ratings of one object, at most `take` or all, in these stores, or in all and without one, by store;
        `after` a position, which is a store or None for none."""
        condition = _of_entity(entity, stores)
        if after is not None:
            condition["$and"] = after_row(BY_STORE, after)
        found = self._ratings.find(condition).sort(BY_STORE).limit(take or 0)
        return [_rated_object(document) async for document in found]

    async def size_of_entity(self, entity: Entity, stores: Collection[str] | None) -> int:
        """The stored size of all these ratings in bytes."""
        return await stored_bytes(self._ratings, _of_entity(entity, stores))

    async def trend(self, entity: Entity, stores: Collection[str] | None, now: datetime) -> Trend:
        """The trend of an object in these stores, or everywhere. Reads at most MOST_COUNTED approved reviews, and the
        others between them."""
        since = next(mondays(now))
        condition = {"entityType": entity.type, "entityId": entity.id, "createdDate": {"$gte": since}}
        approved = {**condition, **in_stores(stores), "status": int(ReviewStatus.APPROVED), **HAS_TEXT_ID}
        week = {"$dateTrunc": {"date": "$createdDate", "unit": "week", "startOfWeek": "monday"}}
        groups = await self._reviews.aggregate(
            [
                {"$match": approved},
                {"$sort": dict(NEWEST)},
                {"$limit": MOST_COUNTED},
                {"$group": {"_id": week, "count": {"$sum": 1}, "sum": {"$sum": "$ratingHundredths"}}},
            ]
        )
        found = await groups.to_list()
        counted = {group["_id"]: RatingTally(group["count"], group["sum"], None) for group in found}
        return trend(now, counted, is_partial=sum(group["count"] for group in found) >= MOST_COUNTED)

    async def awaiting_names(self, limit: int) -> list[UnnamedTally]:
        """At most `limit` tallies whose names are wanted."""
        shown = {"entityType": 1, "entityId": 1, "storeId": 1, "namings": 1}
        wanted = [{"listKey": None}, {"renamed": True}]
        found = self._ratings.find({"$or": wanted}, shown).limit(limit)
        return [
            UnnamedTally(str(document["_id"]), key_from(document), document.get("namings", 0))
            async for document in found
        ]

    async def names_in_reviews(self, tallies: Collection[UnnamedTally]) -> dict[str, str]:
        """The names of objects by the id of their tally: that in the newest approved review in the store that has one;
        left out if the newest approved reviews of the object have none. Nobody has approved the names in others."""
        names: dict[TallyKey, str] = {}
        for entity_type, ids in ids_by_type(tally.key.entity for tally in tallies).items():
            names |= await self._names_in_reviews(entity_type, sorted(ids))
        return {tally.id: name for tally in tallies if (name := names.get(tally.key))}

    async def _names_in_reviews(self, entity_type: str, ids: Sequence[str]) -> dict[TallyKey, str]:
        """The names of objects of one type, in ascending order, by object and store. Reviews are read along an index,
        which has them in this order: MongoDB would take ten times as long for a `$lookup` from each tally."""
        names: dict[TallyKey, str] = {}
        while ids:
            approved = {"entityType": entity_type, "entityId": {"$in": ids}, "status": int(ReviewStatus.APPROVED)}
            found = self._reviews.find(approved, _NAMED, batch_size=_READ_AT_ONCE + 1).sort(_NEWEST_OF_OBJECTS)
            reviews = await found.limit(_READ_AT_ONCE).to_list()
            seen = Counter[str]()
            for review in reviews:
                id, store, name = review["entityId"], review.get("storeId"), review.get("entityName")
                seen[id] += 1
                # A damaged field may have any type.
                if seen[id] <= _NAMES_LOOKED_AT and name and isinstance(name, str) and isinstance(store, str | None):
                    names.setdefault(TallyKey(Entity(entity_type, id), store), name)
            if len(reviews) < _READ_AT_ONCE:
                break
            last = reviews[-1]["entityId"]
            ids = [id for id in ids if id > last or (id == last and seen[id] < _NAMES_LOOKED_AT)]
        return names

    async def save_names(self, names: Sequence[tuple[UnnamedTally, str | None]]) -> None:
        """Write the names of tallies, None for no name, except where the name was asked for anew since."""
        by_namings: dict[int, dict[ObjectId, Document]] = {}
        for tally, name in names:
            by_namings.setdefault(tally.namings, {})[ObjectId(tally.id)] = _name_fields(tally, name)
        for namings, fields in by_namings.items():
            unchanged = {"_id": {"$in": list(fields)}, "namings": namings or None}
            await self._ratings.update_many(unchanged, [*own_values(fields), {"$unset": "renamed"}])

    async def forget_names(self, entities: Collection[Entity], session: Session | None = None) -> None:
        """Have the names of these objects looked up anew; a name that no source has any more is removed."""
        for entity_type, ids in ids_by_type(entities).items():
            condition = {"entityType": entity_type, "entityId": {"$in": list(ids)}}
            renamed = {"$set": {"renamed": True}, "$inc": {"namings": 1}}
            await self._ratings.update_many(condition, renamed, session=session)


def _rated_in(stores: Collection[str] | None) -> Document:
    return {"count": {"$gt": 0}, **in_stores(stores)}


def _name_fields(tally: UnnamedTally, name: str | None) -> Document:
    id = tally.key.entity.id
    # The tally's id makes the position unique.
    return {"name": name, "listKey": f"{list_key(name, id)} {tally.id}", "searchKeys": search_keys(name, id)}


def _of_entity(entity: Entity, stores: Collection[str] | None) -> Document:
    return {"entityType": entity.type, "entityId": entity.id, **_rated_in(stores)}


def _rated_object(document: Document) -> RatedObject:
    return RatedObject(key_from(document), tally_from(document), document.get("name"), document.get("listKey", ""))
