"""Reviews as edits read and write them, in a transaction."""

from collections.abc import Collection, Mapping

from pymongo import UpdateOne

from domain.reviews import Review
from storage.database import Database, Document, Session
from storage.queries import ONE_ANSWER, update_of, write_all
from storage.reviews.documents import EDITABLE, TEXT_BYTES, editable_from, edited_fields
from storage.reviews.facts import EDITED_FACTS, facts_fields
from storage.reviews.repository import COLLECTION
from storage.reviews.shape import IS_REVIEW


class ReviewEditRepository:
    """Reads reviews for edits, and writes the fields that edits change."""

    def __init__(self, database: Database) -> None:
        self._reviews = database[COLLECTION]

    async def load(self, ids: Collection[str], session: Session) -> dict[str, Review]:
        """These reviews by id; unknown ones are left out."""
        wanted = {"_id": {"$in": list(ids)}, **IS_REVIEW}
        found = self._reviews.find(wanted, EDITABLE, batch_size=ONE_ANSWER, session=session)
        return {document["_id"]: editable_from(document) async for document in found}

    async def text_bytes(self, ids: Collection[str]) -> dict[str, int]:
        """The lengths of these reviews' texts in bytes, by id; unknown ones are left out."""
        found = self._reviews.find({"_id": {"$in": list(ids)}, **IS_REVIEW}, {"review": TEXT_BYTES})
        return {document["_id"]: document["review"] async for document in found}

    async def save(self, reviews: Mapping[str, Review], session: Session) -> None:
        """Write reviews as edits left them."""
        writes = [UpdateOne({"_id": id}, update_by_edit(review)) for id, review in reviews.items()]
        await write_all(self._reviews, writes, session)


def update_by_edit(review: Review) -> Document:
    """The update that writes a review as an edit left it."""
    facts = facts_fields(review)
    optional = {name: facts.get(name) for name in EDITED_FACTS}
    if review.entity_name:
        optional["nameWanted"] = None
    return update_of(edited_fields(review), optional)
