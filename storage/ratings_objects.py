"""Rated objects: their names, by which they are found, and the trend of their ratings.

A tally gets its name after it is stored, so that approvals don't depend on it: one without is found by its missing
`listKey`. A change of a name sets `renamed` and increments `namings`, so that a name that was looked up before isn't
written afterwards.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from bson import ObjectId
from pymongo import ASCENDING, IndexModel, UpdateOne

from domain.ratings import Entity, RatingTally, TallyKey, ids_by_type
from domain.ratings_names import list_key, search_keys
from domain.ratings_trend import Trend, mondays, trend
from domain.reviews import ReviewStatus
from storage.database import Database, Document, Session, in_stores
from storage.ratings import COLLECTION, key_from, tally_from
from storage.reviews import COLLECTION as REVIEWS
from storage.reviews import NEWEST
from storage.reviews_shape import HAS_TEXT_ID

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
_LAST: Final = "\U0010ffff"
_STORE: Final[Document] = {"$ifNull": ["$storeId", None]}
"""The store of a document in an expression, where a missing field isn't null."""

_OF_OBJECT: Final[Document] = {"$and": [{"$eq": ["$entityType", "$$type"]}, {"$eq": ["$entityId", "$$id"]}]}
_NEWEST_WITH_NAME: Final[Document] = {
    "$lookup": {
        "from": REVIEWS,
        "let": {"type": "$entityType", "id": "$entityId", "store": _STORE},
        "pipeline": [
            {"$match": {"status": int(ReviewStatus.APPROVED), "$expr": _OF_OBJECT}},
            {"$sort": dict(NEWEST)},
            {"$limit": _NAMES_LOOKED_AT},
            {"$match": {"entityName": {"$gt": ""}, "$expr": {"$eq": [_STORE, "$$store"]}}},
            {"$limit": 1},
        ],
        "as": "newest",
    }
}
"""The stage that adds `newest` to tallies: of the newest approved reviews of the object, the first in the store with a
name; a list of one or none."""


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

    async def of_entity(self, entity: Entity, stores: Collection[str] | None) -> list[RatedObject]:
        """The ratings of one object by store, in these stores, or in all and without one."""
        condition = {"entityType": entity.type, "entityId": entity.id, **_rated_in(stores)}
        return [_rated_object(document) async for document in self._ratings.find(condition).sort("storeId", ASCENDING)]

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
        if not tallies:
            return {}
        wanted: Document = {"_id": {"$in": [ObjectId(tally.id) for tally in tallies]}}
        name: list[Document] = [{"$unwind": "$newest"}, {"$project": {"name": "$newest.entityName"}}]
        found = await self._ratings.aggregate([{"$match": wanted}, _NEWEST_WITH_NAME, *name])
        return {str(document["_id"]): document["name"] async for document in found}

    async def save_names(self, names: Sequence[tuple[UnnamedTally, str | None]]) -> None:
        """Write the names of tallies, None for no name, except where the name was asked for anew since."""
        if not names:
            return
        await self._ratings.bulk_write(
            [
                UpdateOne(
                    {"_id": ObjectId(tally.id), "namings": tally.namings or None},
                    {"$set": _name_fields(tally, name), "$unset": {"renamed": ""}},
                )
                for tally, name in names
            ],
            ordered=False,
        )

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


def _rated_object(document: Document) -> RatedObject:
    return RatedObject(key_from(document), tally_from(document), document.get("name"), document.get("listKey", ""))
