"""Reviews: stored by submissions, changed by moderation, searched by the facade.

An id stays taken once a review had it. A deleted review leaves the placeholder `{_id, submittedAt, told, writtenAt,
goneAt}`, by which a redelivery is distinguished from another use of the id. A refused submission leaves `{_id, refused,
goneAt, seen}`, so that a late redelivery finds its id and inserts nothing. Both are removed in time, and differ from
reviews by having no `createdDate`.

Indexes are kept few, and none is changed by an approval (`reviews_queue`).
"""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from pymongo import ASCENDING, DESCENDING, IndexModel, UpdateMany

from domain.ratings import Entity
from domain.reminders import PRODUCT, ReviewedProduct
from domain.reviews import Review, ReviewIdentity
from domain.reviews_moderated import ModeratedReview
from storage.database import Database, Document, Session
from storage.feedback.reports import reported_reviews
from storage.images.repository import ImageRepository
from storage.keyset import position_of
from storage.moderation_rules import TextRepository
from storage.queries import ONE_ANSWER, ids_of_objects, in_stores, insert_if_free, own_values, write_all
from storage.reviews import late as reviews_late
from storage.reviews import queue as reviews_queue
from storage.reviews import unseen as reviews_unseen
from storage.reviews.documents import LISTED, MODERATED, document_of, moderated_fields, moderated_from, review_from
from storage.reviews.ids import (
    HOLDER,
    PLACEHOLDER,
    IdHolder,
    RefusedSubmission,
    holder_from,
    identity_from,
    is_gone,
    refused_document,
)
from storage.reviews.ranked import HELPFUL, ranked, ranks_by_votes
from storage.reviews.search import ReviewPage, ReviewSearch, criteria, order, sorts_everything
from storage.reviews.shape import APPROVED, BY_ENTITY, IS_REVIEW, NEWEST, REVIEW
from storage.reviews.types import with_types
from storage.seen import seen_document
from storage.shapes import is_field_damaged
from storage.unique_keys import UniqueKeyRepository

COLLECTION: Final = REVIEW.collection

_FORGOTTEN_AT_ONCE: Final = 1_000
_BY_USER: Final = [("userId", ASCENDING), *NEWEST]

INDEXES: Final = [
    # Placeholders are at one end of it, where `forget_gone` finds them.
    IndexModel(NEWEST, name="newest"),
    # The index above finds approved reviews, which are nearly all.
    reviews_queue.INDEX,
    IndexModel([*BY_ENTITY, *NEWEST], name="entity_newest"),
    IndexModel([("storeId", ASCENDING), *NEWEST], name="store_newest"),
    IndexModel(_BY_USER, name="user_newest"),
    # For imports, which were created long before they came, and for placeholders of deleted reviews.
    IndexModel([("submittedAt", DESCENDING)], name="submitted", sparse=True),
    reviews_late.INDEX,
    reviews_unseen.INDEX,
    HELPFUL,
    # For the best and the worst reviews of an object, and those with certain stars. Approvals add nothing to it.
    IndexModel([*BY_ENTITY, ("ratingHundredths", DESCENDING), *NEWEST], name="entity_rated"),
]
_NAME_WANTED: Final = IndexModel(
    [*BY_ENTITY, ("nameWanted", ASCENDING)], name="name_wanted", partialFilterExpression={"nameWanted": True}
)


@dataclass(frozen=True, slots=True)
class WantedNames:
    """A page of ids of objects whose names are wanted, ascending; `is_more` if others follow."""

    ids: Sequence[str]
    is_more: bool


class ReviewRepository:
    """Reads and writes reviews."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reviews = database[COLLECTION]
        self._queue = reviews_queue.Queue(database)
        self._unique_keys = UniqueKeyRepository(database)
        self._texts = TextRepository(database)
        self._images = ImageRepository(database)

    async def insert(self, reviews: Iterable[Review], refused: Iterable[RefusedSubmission] = ()) -> set[str]:
        """Store new reviews and refused submissions. Returns the ids that were already taken; their documents stay."""
        documents = [*map(document_of, reviews), *map(refused_document, refused)]
        return {documents[index]["_id"] for index in await insert_if_free(self._reviews, documents)}

    async def insert_free(self, reviews: Iterable[Review], session: Session) -> None:
        """Store new reviews in a transaction; their ids must be free."""
        if documents := [*map(document_of, reviews)]:
            await self._reviews.insert_many(documents, session=session)

    async def holders(self, ids: Collection[str], session: Session | None = None) -> dict[str, IdHolder]:
        """The documents with these ids, in brief; free ids are left out."""
        if not ids:
            return {}
        found = self._reviews.find({"_id": {"$in": list(ids)}}, HOLDER, batch_size=ONE_ANSWER, session=session)
        return {document["_id"]: holder_from(document) async for document in found}

    async def replace_refused(
        self, before: RefusedSubmission, after: Review | RefusedSubmission, session: Session | None = None
    ) -> bool:
        """Put a review or a later refusal in the place of a refused submission; False if that has changed meanwhile."""
        document = document_of(after) if isinstance(after, Review) else refused_document(after)
        unchanged = {"_id": before.id, "refused": before.reason.value, "seen": seen_document(before.seen)}
        return (await self._reviews.replace_one(unchanged, document, session=session)).matched_count == 1

    async def entities(self, ids: Collection[str], session: Session | None = None) -> dict[str, Entity | None]:
        """The object of each review, None for a deleted or refused one; unknown ids are left out."""
        if not ids:
            return {}
        fields = {"entityType": 1, "entityId": 1, "goneAt": 1}
        found = self._reviews.find({"_id": {"$in": list(ids)}}, fields, session=session)
        return {
            document["_id"]: None if is_gone(document) else identity_from(document).entity async for document in found
        }

    async def deleted_among(self, ids: Collection[str]) -> list[str]:
        """Those of these ids whose reviews are deleted: not refused ones, which may be accepted yet."""
        if not ids:
            return []
        wanted = {"_id": {"$in": list(ids)}, "goneAt": {"$exists": True}, "refused": {"$exists": False}}
        return [document["_id"] async for document in self._reviews.find(wanted, {"_id": 1}, batch_size=ONE_ANSWER)]

    async def store_ids(self, ids: Collection[str]) -> dict[str, str | None]:
        """The store of each review, None if it has none; unknown ids and those of deleted reviews are left out."""
        found = self._reviews.find({"_id": {"$in": list(ids)}, **IS_REVIEW}, {"storeId": 1})
        return {document["_id"]: document.get("storeId") async for document in found}

    async def moderated(self, ids: Collection[str], session: Session) -> dict[str, ModeratedReview]:
        """The part of these reviews that moderation reads; those that don't exist are left out."""
        wanted = {"_id": {"$in": list(ids)}, **IS_REVIEW}
        found = self._reviews.find(wanted, MODERATED, batch_size=ONE_ANSWER, session=session)
        return {document["_id"]: moderated_from(document) async for document in found}

    async def save_moderated(self, reviews: Mapping[str, ModeratedReview], session: Session) -> None:
        """Write the results of moderation, in at most two updates of reviews, whatever their number."""
        kept = {id: moderated_fields(review) for id, review in reviews.items() if review.status is not None}
        if kept:
            await self._reviews.update_many({"_id": {"$in": list(kept)}}, own_values(kept), session=session)
        deleted = [id for id, review in reviews.items() if review.status is None]
        if deleted:
            gone = [{"$replaceWith": PLACEHOLDER}]
            await self._reviews.update_many({"_id": {"$in": deleted}}, gone, session=session)
            await self._unique_keys.free(deleted, session)
            await self._texts.forget(deleted, session)
            await self._images.give_up_of_reviews(deleted, session)

    async def forget_gone(self, before: datetime) -> int:
        """Free the ids of reviews deleted, and of submissions refused, before this moment; returns the number. Forgets
        their texts again, because submissions that were not stored may have noted them since."""
        gone = {"createdDate": None, "goneAt": {"$lt": before}}
        count = 0
        while ids := [each["_id"] async for each in self._reviews.find(gone, {"_id": 1}).limit(_FORGOTTEN_AT_ONCE)]:
            await self._texts.forget(ids)
            count += (await self._reviews.delete_many({"_id": {"$in": ids}, **gone})).deleted_count
        return count

    async def index_wanted_names(self) -> None:
        """Create the index of `wanted_names`, which a service without resolvers doesn't need."""
        await self._reviews.create_indexes([_NAME_WANTED])

    async def wanted_names(self, entity_type: str, *, after: str, limit: int) -> WantedNames:
        """The objects of a type whose reviews want a name, with ids after `after`; examines at most `limit` reviews."""
        wanted = {"entityType": entity_type, "entityId": {"$gt": after}, "nameWanted": True}
        found = self._reviews.find(wanted, {"_id": 0, "entityId": 1}).sort("entityId").limit(limit)
        ids = [document["entityId"] async for document in found]
        return WantedNames(list(dict.fromkeys(ids)), is_more=len(ids) == limit)

    async def fill_names(self, entity_type: str, names: Mapping[str, str]) -> None:
        """Write these names, by object id, to the reviews that want them, which is no modification of them."""
        fills = [
            UpdateMany(
                {"entityType": entity_type, "entityId": id, "nameWanted": True},
                {"$set": {"entityName": name}, "$unset": {"nameWanted": ""}},
            )
            for id, name in names.items()
        ]
        await write_all(self._reviews, fills)

    async def reviewed(self, wanted: Collection[ReviewedProduct]) -> set[ReviewedProduct]:
        """The reviews among these that exist, in any status."""
        if not wanted:
            return set()
        found = self._reviews.find(
            {
                "userId": {"$in": sorted({each.customer_id for each in wanted})},
                "entityType": PRODUCT,
                "entityId": {"$in": sorted({each.product_id for each in wanted})},
            },
            {"storeId": 1, "userId": 1, "entityId": 1},
        ).hint(_BY_USER)  # Products can have far more reviews than customers write.
        stored = {
            ReviewedProduct(document.get("storeId"), document["userId"], document["entityId"])
            async for document in found
        }
        return stored.intersection(wanted)

    async def written_by(self, wanted: Collection[ReviewIdentity]) -> dict[ReviewIdentity, set[str]]:
        """The ids of the reviews with these authors, objects and stores, in any status."""
        if not wanted:
            return {}
        found = self._reviews.find(
            {
                "userId": {"$in": sorted({each.user_id for each in wanted if each.user_id is not None})},
                "entityId": {"$in": sorted({each.entity.id for each in wanted})},
            },
            {"entityType": 1, "entityId": 1, "storeId": 1, "userId": 1},
        )
        ids: dict[ReviewIdentity, set[str]] = {}
        async for document in found:
            if not is_field_damaged(REVIEW, document, "_id"):
                ids.setdefault(identity_from(document), set()).add(document["_id"])
        return {identity: ids[identity] for identity in wanted if identity in ids}

    async def get(self, id: str, session: Session | None = None) -> Review | None:
        """One review, or None."""
        document = await self._reviews.find_one({"_id": id, **IS_REVIEW}, session=session)
        return review_from(document) if document else None

    async def by_user(self, user_id: str) -> list[Review]:
        """All reviews of an author, in any store and status, by id."""
        return [review_from(document) async for document in self._reviews.find({"userId": user_id}).sort("_id")]

    async def search(self, search: ReviewSearch) -> ReviewPage:
        """One page without its long texts, sorted as requested, newest first by default; ties are broken by id.
        Reviews whose ids aren't texts are left out."""
        if search.take == 0:
            return ReviewPage([], {})
        search = await with_types(self._reviews, search)
        wanted = search.take + 1  # one more shows whether there is another page
        if ranks_by_votes(search):
            documents = await ranked(self._reviews, search, LISTED, wanted)
        else:
            found = self._reviews.find(await self._criteria(search), LISTED).sort(order(search))
            if sorts_everything(search):
                found = found.hint([("$natural", ASCENDING)])  # it would fetch review by review along an index
            documents = await found.skip(search.skip).limit(wanted).to_list()
        is_last = len(documents) <= search.take
        documents = [each for each in documents if not is_field_damaged(REVIEW, each, "_id")][: search.take]
        if not documents and not is_last:
            return await self.search(replace(search, skip=search.skip + wanted))
        long_texts: dict[str, int] = {}
        for document in documents:
            if isinstance(length := document.get("review"), int):
                long_texts[document["_id"]], document["review"] = length, ""
        reviews = [review_from(document) for document in documents]
        return ReviewPage(reviews, long_texts, None if is_last else position_of(documents[-1], order(search)))

    async def texts(self, ids: Collection[str], *, approved: bool = False) -> dict[str, str]:
        """The texts of these reviews, with `approved` of approved ones alone; deleted ones are left out."""
        found = self._reviews.find({"_id": {"$in": list(ids)}, **(APPROVED if approved else IS_REVIEW)}, {"review": 1})
        return {document["_id"]: document.get("review", "") async for document in found}

    async def of_ids(self, ids: Collection[str]) -> dict[str, Review]:
        """These reviews by id; unknown and deleted ones are left out."""
        found = self._reviews.find({"_id": {"$in": list(ids)}, **IS_REVIEW})
        return {document["_id"]: review_from(document) async for document in found}

    async def count(self, search: ReviewSearch, *, exact_below: int) -> int:
        """The number of matching reviews over all pages. From `exact_below` on, it may include approved ones that have
        yet to leave the queue, because only the index is counted. Reviews whose ids aren't texts are left out."""
        conditions = await self._criteria(await with_types(self._reviews, search))
        return await reviews_queue.count(self._reviews, conditions, exact_below)

    async def _criteria(self, search: ReviewSearch) -> Document:
        """The filter for a search. Reported reviews, which are few and in no index, are found by their reports."""
        conditions = criteria(search)
        if search.statuses is not None and await self._queue.holds(search.statuses):
            conditions |= reviews_queue.among(search.statuses)
        if not search.is_reported:
            return conditions
        reported = {"_id": {"$in": await reported_reviews(self._database)}}
        return {**conditions, "$and": [*conditions.get("$and", ()), reported]}

    async def entities_reviewed_since(self, moment: datetime, stores: Collection[str] | None) -> AsyncIterator[str]:
        """The ids of objects with a review, in one of these stores or in any, that was stored at this moment or later,
        ascending and distinct."""
        return await ids_of_objects(self._reviews, {**reviews_late.stored_since(moment), **in_stores(stores)})
