"""Finds and mends stored documents that have lost fields, a slice at a time, while the service runs."""

from collections.abc import AsyncIterator, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pymongo import ASCENDING, UpdateOne
from pymongo.errors import ExecutionTimeout

from domain.ratings import Entity
from domain.reviews import Review
from storage.database import Database, Document, Session
from storage.feedback.reports import REPORT
from storage.feedback.votes import VOTE
from storage.id_ranges import OBJECT_IDS, OBJECTS, SIZE, TEXTS, id_ranges
from storage.images.repository import IMAGE
from storage.objects import FACTS
from storage.orders.shape import ORDER, returned_by
from storage.queries import write_all
from storage.ratings.repository import TALLY
from storage.reminders.repository import REMINDED
from storage.returns.documents import RETURN
from storage.review_tokens import USED_TOKEN
from storage.reviews.documents import document_of
from storage.reviews.queue import queue_fields
from storage.reviews.shape import REVIEW, TALLIED, is_uncertain
from storage.shapes import Shape, StoredDocumentError, damaged, is_field_damaged
from storage.templates import TEMPLATE

_SHAPES: Final = (REVIEW, TALLY, RETURN, ORDER, IMAGE, TEMPLATE, REMINDED, REPORT, VOTE, FACTS, USED_TOKEN)
SHAPES: Final[Mapping[str, Shape]] = {shape.collection: shape for shape in _SHAPES}
"""The shapes by collection. Returns come before orders: the returned quantities of an order are computed from them."""

_IDS: Final[Mapping[str, Document]] = {
    TALLY.collection: OBJECT_IDS,
    **dict.fromkeys((VOTE.collection, FACTS.collection, USED_TOKEN.collection), OBJECTS),
}
"""The conditions on the ids of collections whose ids aren't texts."""

Id = Hashable | Mapping[str, str]
"""An id as MongoDB has it: a string, for tallies an ObjectId, for votes, facts of objects and used tokens a document,
and anything for a document that was inserted by hand."""


@dataclass(slots=True)
class Mended:
    """The result of mending some documents."""

    restored: int = 0
    """The number of documents that got values known elsewhere."""
    filled: int = 0
    """The number of documents that got defaults."""
    lost: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of fields that stay lost, by id."""
    entities: set[Entity] = field(default_factory=set)
    """The objects whose ratings have to be recounted."""


class Mender:
    """Finds and mends the damaged documents of one collection."""

    def __init__(self, database: Database, collection: str) -> None:
        self.collection = collection
        self._shape = SHAPES[collection]
        self._database = database
        self._documents = database[collection]

    async def count(self, *, most: int, patience_ms: int) -> int | None:
        """The number of damaged documents, counted up to `most`; None if that takes longer than `patience_ms`."""
        try:
            return await self._documents.count_documents(damaged(self._shape), limit=most, maxTimeMS=patience_ms)
        except ExecutionTimeout:
            return None

    async def estimated_count(self) -> int:
        """The estimated number of documents."""
        return await self._documents.estimated_document_count()

    async def slices(self, size: int = SIZE) -> AsyncIterator[list[Id]]:
        """The ids of damaged documents, in order, for `size` documents at a time, often none. Ids of types that we
        don't give come first."""
        ours = _IDS.get(self.collection, TEXTS)
        yield await self._damaged({"_id": {"$not": ours}})
        async for within in id_ranges(self._documents, ours, size):
            yield await self._damaged(within)

    async def _damaged(self, within: Document) -> list[Id]:
        condition = {**damaged(self._shape), **within}
        found = self._documents.find(condition, {"_id": 1}).sort("_id", ASCENDING).hint("_id_")
        return [document["_id"] async for document in found]

    async def mend(self, ids: Collection[Id], known: Mapping[str, Review], session: Session) -> Mended:
        """Mend documents as far as possible: by the reviews that are `known` elsewhere, else by defaults."""
        mended, writes = Mended(), []
        condition = {**damaged(self._shape), "_id": {"$in": list(ids)}}
        async for document in self._documents.find(condition, session=session):
            id = str(document["_id"])
            values = document_of(known[id]) if id in known else await self._values_elsewhere(document, session)
            write = self._write(document, values, mended)
            if write:
                writes.append(write)
        await write_all(self._documents, writes, session)
        return mended

    def _write(self, document: Document, values: Document, mended: Mended) -> UpdateOne | None:
        """The write that mends a document by these values, else by defaults, whose effect is noted in `mended`; None if
        nothing helps."""
        shape, id = self._shape, str(document["_id"])
        wanting = [name for name in shape.fields if is_field_damaged(shape, document, name)]
        if "_id" in wanting:
            # Whatever else is filled in, it can't be shown.
            mended.lost[id] = ("_id",)
            return None
        found = {name: values[name] for name in wanting if name in values}
        defaults = {
            name: shape.fields[name].stand_in(document)
            for name in wanting
            if name not in found and document.get(name) is None and shape.fields[name].is_default
        }
        changes = {**found, **defaults}
        lost = tuple(name for name in wanting if name not in changes)
        entities = self._to_recount(document, changes)
        # All of a tally can be counted, if its object is known.
        if lost and not (shape is TALLY and entities):
            mended.lost[id] = lost
        mended.entities |= entities
        mended.restored += bool(found)
        mended.filled += bool(defaults)
        changes |= self._consequences({**document, **changes}, changes, has_defaults=bool(defaults))
        return UpdateOne({"_id": document["_id"]}, {"$set": changes}) if changes else None

    def _to_recount(self, document: Document, changes: Document) -> set[Entity]:
        """The object, if known, whose ratings have to be recounted because of these changes to a document."""
        whole = {**document, **changes}
        entity_type, entity_id = whole.get("entityType"), whole.get("entityId")
        if not isinstance(entity_type, str) or not isinstance(entity_id, str):
            return set()
        is_review_counted_anew = self._shape is REVIEW and (is_uncertain(document) or changes.keys() & TALLIED)
        is_counted_anew = self._shape is TALLY or is_review_counted_anew
        return {Entity(entity_type, entity_id)} if is_counted_anew else set()

    def _consequences(self, whole: Document, changes: Document, *, has_defaults: bool) -> Document:
        """Further fields that change with these, in a document that is `whole` with them."""
        shape = self._shape
        is_queued = shape is REVIEW and changes.keys() & {"status", "createdDate"}
        if is_queued and not is_field_damaged(shape, whole, "status"):
            # The step that fills the queue skips reviews without a date.
            return queue_fields(whole["status"])
        # The newest event of the order, sent again, is no repeat then, and brings what was lost.
        return {"digests": []} if shape is ORDER and has_defaults else {}

    async def _values_elsewhere(self, document: Document, session: Session) -> Document:
        """The values that other collections have."""
        if self._shape is not ORDER or document.get("returned") is not None:
            return {}
        try:
            returns = self._database[RETURN.collection].find({"orderId": document["_id"]}, session=session)
            return {"returned": returned_by([each async for each in returns])}
        except StoredDocumentError:
            return {}
