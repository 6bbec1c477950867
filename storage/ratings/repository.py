"""Ratings: one tally for each object and store, kept in step with the reviews by the same transaction."""

from collections.abc import AsyncIterator, Collection, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final, NamedTuple

from bson import ObjectId
from pymongo import ASCENDING, IndexModel, UpdateOne

from domain.ratings import STARS, ChangedTally, Entity, RatingTally, TallyKey, ids_by_type, lowest_with, next_revision
from domain.reviews import ReviewStatus
from storage.database import Database, Document, Session
from storage.queries import ONE_ANSWER, ids_of_objects, in_stores, one_of, own_values, write_all
from storage.ratings.slices import slices
from storage.reviews.search import ReviewSearch, are_tallied, tallied
from storage.reviews.shape import BY_ENTITY, HAS_TEXT_ID, REVIEW
from storage.reviews.types import with_types
from storage.shapes import STRING, TEXT_OR_NULL, WHOLE, Shape, default_field, irrecoverable_field, is_whole, read

COLLECTION: Final = "ratings"
TALLY: Final = Shape(
    COLLECTION,
    {
        **dict.fromkeys(("entityType", "entityId"), irrecoverable_field(STRING, "?")),
        "storeId": default_field(TEXT_OR_NULL),
        **dict.fromkeys(("count", "sumHundredths"), irrecoverable_field(WHOLE, 0)),
    },
)
# Names and search keys of objects are most of a document.
_KEYED: Final = {"_id": 0, "entityId": 1, "storeId": 1, "count": 1, "sumHundredths": 1}
_WHOLE: Final = dict.fromkeys((*TALLY.fields, "histogram", "revision"), 1)

_HAS_OBJECT: Final = {"entityType": {"$exists": True}, "entityId": {"$exists": True}}

_SLICE: Final = 10_000
"""The number of reviews or tallies compared at a time."""

INDEXES: Final = [
    IndexModel([*BY_ENTITY, ("storeId", ASCENDING)], name="tally", unique=True),
    # No index by the last change: an update that changes an index costs a transaction several times one that doesn't.
    IndexModel([("recountedDate", ASCENDING)], name="recounted", sparse=True),
]


class _StoredTally(NamedTuple):
    """A tally as it is stored."""

    id: ObjectId | None = None
    tally: RatingTally = RatingTally()
    revision: int | None = None
    is_whole: bool = True

    def changed(self, change: RatingTally, at: datetime) -> ChangedTally:
        return ChangedTally(self.tally.after(change), next_revision(self.revision, at))


class RatingRepository:
    """Reads and writes tallies."""

    def __init__(self, database: Database) -> None:
        self._ratings = database[COLLECTION]
        self._reviews = database[REVIEW.collection]

    async def add(
        self, changes: Mapping[TallyKey, RatingTally], session: Session, uncertain: Collection[Entity] = ()
    ) -> dict[TallyKey, ChangedTally]:
        """Add to tallies, and return their new states; the cost grows with their number, not with that of reviews.

        Tallies of `uncertain` objects, and damaged ones, are counted from the reviews as they now are.
        """
        if not changes and not uncertain:
            return {}
        stored = await self._load(changes, session)
        counted = {*uncertain, *(key.entity for key, each in stored.items() if not each.is_whole)}
        certain = {key: change for key, change in changes.items() if key.entity not in counted}
        now = datetime.now(UTC)
        after = await self._add(certain, stored, now, session)
        for entity in sorted(counted):
            after |= await self.recount(entity, now, session)
        return after

    async def _add(
        self,
        changes: Mapping[TallyKey, RatingTally],
        stored: Mapping[TallyKey, _StoredTally],
        now: datetime,
        session: Session,
    ) -> dict[TallyKey, ChangedTally]:
        after = {key: stored.get(key, _StoredTally()).changed(change, now) for key, change in changes.items()}
        kept = {stored[key].id: _changed_fields(changed) for key, changed in after.items() if key in stored}
        if kept:
            # The objects determine the shards. Of two transactions that change the same tally, one is repeated.
            types = {key.entity.type for key in stored}
            ids = {key.entity.id for key in stored}
            condition = {"entityType": one_of(types), "entityId": one_of(ids), "_id": {"$in": list(kept)}}
            await self._ratings.update_many(condition, own_values(kept), hint="_id_", session=session)
        # MongoDB would take five times as long for upserts. Of two transactions that insert a tally, one is repeated.
        new = [{**_key_document(key), **_changed_fields(each)} for key, each in after.items() if key not in stored]
        if new:
            await self._ratings.insert_many(new, ordered=False, session=session)
        return after

    async def _load(self, keys: Collection[TallyKey], session: Session) -> dict[TallyKey, _StoredTally]:
        """The stored ones among these tallies, and among others of their objects."""
        stored: dict[TallyKey, _StoredTally] = {}
        # One range of ids for each type: an `$or` of hundreds of keys takes the planner longer than all the rest.
        for entity_type, entity_ids in ids_by_type(key.entity for key in keys).items():
            condition = {"entityType": entity_type, "entityId": {"$in": list(entity_ids)}}
            stored |= await self._matching(condition, session)
        return stored

    async def _matching(self, condition: Document, session: Session) -> dict[TallyKey, _StoredTally]:
        found = self._ratings.find(condition, _WHOLE, batch_size=ONE_ANSWER, session=session)
        return {key_from(document): _stored_from(document) async for document in found}

    async def of_entities(
        self,
        entity_type: str,
        entity_ids: Collection[str],
        *,
        stores: Collection[str] | None = None,
        with_histogram: bool = False,
        session: Session | None = None,
    ) -> dict[str, dict[str | None, RatingTally]]:
        """The tallies of these objects by id and store, in these stores, or in all and without one; an object without
        approved reviews has none."""
        objects = {"entityType": entity_type, "entityId": {"$in": list(entity_ids)}}
        found = self._ratings.find(
            {**objects, **in_stores(stores), "count": {"$gt": 0}},
            {**_KEYED, "histogram": 1} if with_histogram else _KEYED,
            batch_size=ONE_ANSWER,
            session=session,
        )
        tallies: dict[str, dict[str | None, RatingTally]] = {}
        async for document in found:
            tallies.setdefault(document["entityId"], {})[document.get("storeId")] = tally_from(document)
        return tallies

    async def count_of_entities(self, entity_type: str, entity_ids: Collection[str]) -> int:
        """The number of tallies of these objects, including those without approved reviews: read from the index."""
        return await self._ratings.count_documents({"entityType": entity_type, "entityId": {"$in": list(entity_ids)}})

    async def count_reviews(self, search: ReviewSearch) -> int | None:
        """The number of matching reviews by the tallies; None if they don't show it. The cost grows with the number of
        tallies, not of reviews."""
        if not are_tallied(search) or (condition := tallied(await with_types(self._ratings, search))) is None:
            return None
        pipeline = [{"$match": condition}, {"$group": {"_id": None, "count": {"$sum": "$count"}}}]
        counts = await (await self._ratings.aggregate(pipeline)).to_list()
        return int(counts[0]["count"]) if counts else 0

    async def recount(self, entity: Entity, at: datetime, session: Session) -> dict[TallyKey, ChangedTally]:
        """Correct the tallies of an object by a count of its approved reviews; returns those that were wrong."""
        of_entity = {"entityType": entity.type, "entityId": entity.id}
        counts = await self._reviews.aggregate(_count_pipeline(of_entity), session=session)
        correct = {key_from(document["_id"]): _counted_tally(document) async for document in counts}
        stored = await self._matching(of_entity, session)
        wrong: dict[TallyKey, ChangedTally] = {}
        for key in correct.keys() | stored.keys():
            before, tally = stored.get(key, _StoredTally()), correct.get(key, RatingTally())
            if tally != before.tally or not before.is_whole:
                wrong[key] = ChangedTally(tally, next_revision(before.revision, at))
        writes = [
            UpdateOne(
                _key_document(key),
                {"$set": {**_key_document(key), **_changed_fields(changed)}, "$max": {"recountedDate": at}},
                upsert=True,
            )
            for key, changed in wrong.items()
        ]
        await write_all(self._ratings, writes, session)
        return wrong

    async def entities(self, store_id: str | None = None) -> AsyncIterator[Entity]:
        """All objects with a review or a tally; with `store_id`, in that store."""
        of_store = {} if store_id is None else {"storeId": store_id}
        async for within in slices([self._reviews, self._ratings], _SLICE):
            for entity in {each async for each in self._entities({**within, **of_store})}:
                yield entity

    async def _entities(self, condition: Document) -> AsyncIterator[Entity]:
        for source in (self._reviews, self._ratings):
            groups = await source.aggregate(
                [
                    {"$match": {"$and": [_HAS_OBJECT, condition]}},
                    {"$group": {"_id": {"type": "$entityType", "id": "$entityId"}}},
                ],
                allowDiskUse=True,
            )
            async for group in groups:
                yield Entity(group["_id"]["type"], group["_id"]["id"])

    async def differences(self, slice_size: int = _SLICE) -> AsyncIterator[tuple[TallyKey, RatingTally, RatingTally]]:
        """Tallies that differ from a count of the reviews: key, stored, counted.

        Each slice of objects is compared in a snapshot of its own: exact under load, however long all of it takes.
        Memory holds one slice.
        """
        client = self._ratings.database.client
        async for within in slices([self._reviews, self._ratings], slice_size):
            async with client.start_session(snapshot=True) as session:
                async for difference in self._differences(within, session):
                    yield difference

    async def _differences(
        self, within: Document, session: Session
    ) -> AsyncIterator[tuple[TallyKey, RatingTally, RatingTally]]:
        counts = await self._reviews.aggregate(_count_pipeline(within), allowDiskUse=True, session=session)
        counted = {key_from(document["_id"]): _counted_tally(document) async for document in counts}
        async for document in self._ratings.find(within, _WHOLE, batch_size=ONE_ANSWER, session=session):
            key, stored = key_from(document), tally_from(document)
            if (correct := counted.pop(key, RatingTally())) != stored:
                yield key, stored, correct
        for key, correct in counted.items():
            yield key, RatingTally(), correct

    async def entities_recounted_since(self, moment: datetime, stores: Collection[str] | None) -> AsyncIterator[str]:
        """The ids of objects whose rating, in one of these stores or in any, was corrected by a count at this moment or
        later, ascending and distinct."""
        return await ids_of_objects(self._ratings, {"recountedDate": {"$gte": moment}, **in_stores(stores)})


def _count_pipeline(condition: Document) -> list[Document]:
    return [
        {
            "$match": {
                "$and": [_HAS_OBJECT, condition],
                **HAS_TEXT_ID,
                "status": int(ReviewStatus.APPROVED),
                "ratingHundredths": {"$gt": 0},
            }
        },
        {
            "$group": {
                "_id": {
                    "entityType": "$entityType",
                    "entityId": "$entityId",
                    "storeId": {"$ifNull": ["$storeId", None]},
                },
                "count": {"$sum": 1},
                "sumHundredths": {"$sum": "$ratingHundredths"},
                **{f"from{number}": {"$sum": _stars_expression(number)} for number in STARS},
            }
        },
    ]


def _key_document(key: TallyKey) -> Document:
    return {"entityType": key.entity.type, "entityId": key.entity.id, "storeId": key.store_id}


def key_from(document: Document) -> TallyKey:
    """The key in a tally's document."""
    return read(TALLY, _key, document)


def _key(document: Document) -> TallyKey:
    return TallyKey(Entity(document["entityType"], document["entityId"]), document["storeId"])


def _stars_expression(stars: int) -> Document:
    """The expression for 1 if a rating has at least this many stars, else 0."""
    return {"$cond": [{"$gte": ["$ratingHundredths", lowest_with(stars)]}, 1, 0]}


def _counted_tally(document: Document) -> RatingTally:
    reached = [*(document[f"from{number}"] for number in STARS), 0]
    histogram = tuple(here - above for here, above in pairwise(reached))
    return RatingTally(document["count"], document["sumHundredths"], histogram)


def _changed_fields(changed: ChangedTally) -> Document:
    tally, revision = changed
    histogram = tally.histogram and list(tally.histogram)
    return {"count": tally.count, "sumHundredths": tally.sum, "histogram": histogram, "revision": revision}


def tally_from(document: Document) -> RatingTally:
    """The tally in its document; a damaged number is 0, and a damaged histogram isn't known."""
    count, total = (each if isinstance(each := document.get(name), int) else 0 for name in ("count", "sumHundredths"))
    return RatingTally.stored(count, total, _histogram(document.get("histogram")))


def _histogram(stored: Any) -> list[int] | None:
    is_one = isinstance(stored, list) and len(stored) == len(STARS) and all(isinstance(each, int) for each in stored)
    return stored if is_one else None


def _stored_from(document: Document) -> _StoredTally:
    # 0.1.0 stored no revision.
    revision = document.get("revision")
    known_revision = revision if isinstance(revision, int) else None
    return _StoredTally(document["_id"], tally_from(document), known_revision, is_whole(TALLY, document))
