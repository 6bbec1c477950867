"""The queue: unapproved reviews, by an index that approvals leave alone.

A review is in the queue while it has the field `queued`, the first of the index. For example:
- stored as New: `status` 0, `queued` 0;
- approved: `status` 1, `queued` still 0. Lists of New reviews leave it out, because they check `status`, too;
- published by the relay (`consumers.reviews.relay`), which then takes it out: `status` 1, no `queued`. It stays until
  Kafka has its new state.

Approvals leave it there so that they change no index: once an update in a transaction does, MongoDB 6.0 reads the
definitions of all indexes of the collection twice for each changed one, which was four tenths of the cost of an
approval. The relay uses no transaction.
"""

from collections.abc import Collection, Mapping
from time import monotonic
from typing import Any, Final

from pymongo import ASCENDING, IndexModel
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.write_concern import WriteConcern

from domain.reviews import ReviewStatus
from storage.database import Database, Document, Session
from storage.id_ranges import TEXTS
from storage.queries import one_of
from storage.reviews.shape import NEWEST, REVIEW
from storage.schema import SchemaMarks

_FIELD: Final = "queued"
_UNAPPROVED: Final = frozenset(ReviewStatus) - {ReviewStatus.APPROVED}
_LOOK_EVERY_S: Final = 10.0

INDEX: Final = IndexModel(
    # Last the store: what waits in the others isn't read.
    [(_FIELD, ASCENDING), *NEWEST, ("storeId", ASCENDING)],
    name="queued_newest",
    partialFilterExpression={_FIELD: {"$gte": 0}},
)
REPLACED_INDEX: Final = "unapproved_newest"
"""The name of the index that this one replaced."""

NOT_QUEUED: Final[Document] = {
    "status": {"$in": sorted(int(status) for status in _UNAPPROVED)},
    "createdDate": {"$ne": None},
    _FIELD: None,
}
"""The filter for unapproved reviews that 0.1.0, which had no queue, stored."""

ENTER: Final[list[Document]] = [{"$set": {_FIELD: "$status"}}]
"""The update that puts such a review into the queue."""

LEFT_THE_QUEUE: Final[Document] = {
    "operationType": "update",
    "updateDescription.updatedFields": {},
    "updateDescription.removedFields": [_FIELD],
}
"""The filter of a change stream for changes that only take a review out of the queue."""


def queue_fields(status: int) -> Document:
    """The fields of a review with this status by which lists find it; none if it is approved."""
    return {_FIELD: int(status)} if status in _UNAPPROVED else {}


def among(statuses: Collection[ReviewStatus]) -> Document:
    """The condition for reviews in the queue in these statuses."""
    return {_FIELD: one_of([int(status) for status in statuses])}


async def count(reviews: AsyncCollection[Document], conditions: Document, exact_below: int) -> int:
    """The number of reviews that meet these conditions. From `exact_below` on, it may include approved ones that have
    yet to leave the queue, because only the index is counted. Reviews whose ids aren't texts are left out."""
    # Subtracted, so that the count itself remains one by an index: nearly always, there are none.
    left_out = await reviews.count_documents({"$and": [conditions, {"_id": {"$not": TEXTS}}]}, hint="_id_")
    indexed = by_index(conditions)
    if indexed is None:
        return max(0, await reviews.count_documents(conditions) - left_out)
    exact = await reviews.count_documents(conditions, limit=exact_below)
    return max(0, (exact if exact < exact_below else await reviews.count_documents(indexed)) - left_out)


def by_index(conditions: Document) -> Document | None:
    """The conditions without the status, if the index of the queue alone answers them; else None."""
    others = {name: value for name, value in conditions.items() if name != "status"}
    fields = {name for part in (others, *others.get("$and", ())) for name in part} - {"$and"}
    return others if _FIELD in others and fields <= {_FIELD, "createdDate", "storeId"} else None


def has_to_leave(document: Mapping[str, Any]) -> bool:
    """True for an approved review that is still in the queue."""
    return _FIELD in document and document.get("status") == ReviewStatus.APPROVED


class Queue:
    """The queue in the database, usable once it is complete: from schema 3 on."""

    def __init__(self, database: Database) -> None:
        self._marks = SchemaMarks(database)
        self._reviews: AsyncCollection[Document] = database[REVIEW.collection]
        self._is_complete = False
        self._next_look = float("-inf")

    async def holds(self, statuses: Collection[ReviewStatus]) -> bool:
        """True if the queue has every review in these statuses."""
        if not _UNAPPROVED.issuperset(statuses):
            return False
        if not self._is_complete and monotonic() >= self._next_look:
            self._is_complete = (await self._marks.load()).has_queue
            self._next_look = monotonic() + _LOOK_EVERY_S
        return self._is_complete

    async def leave(self, ids: Collection[str], session: Session) -> None:
        """Take approved reviews out. If a lost server loses this write, lists examine reviews needlessly, no more."""
        if not ids:
            return
        reviews = self._reviews.with_options(write_concern=WriteConcern(1))
        approved = {"_id": {"$in": list(ids)}, "status": int(ReviewStatus.APPROVED)}
        await reviews.update_many(approved, {"$unset": {_FIELD: ""}}, session=session)
