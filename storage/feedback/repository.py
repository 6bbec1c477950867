"""Reviews as feedback reads and writes them, in a transaction."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from pymongo import UpdateOne

from domain.delivery import RecordPosition
from domain.feedback import ReviewFeedback, Vote
from domain.moderation import Moderation
from domain.moderation_rules_text import text_hash
from domain.ratings import Entity
from domain.reviews import ReviewStatus
from storage.database import Database, Document, Session
from storage.feedback.reports import ReportRepository
from storage.queries import update_of, write_all
from storage.reviews.facts import reply_fields, reply_from, responses_fields, responses_from
from storage.reviews.repository import COLLECTION
from storage.reviews.shape import IS_REVIEW, REVIEW
from storage.shapes import read

_READ: Final = dict.fromkeys(
    ("entityType", "entityId", "storeId", "reply", "repliedAt", "helpful", "notHelpful", "reports"), 1
)
_TEXT: Final = dict.fromkeys(("title", "review"), 1)
_BRIEF: Final = dict.fromkeys(("entityType", "entityId", "storeId", "status"), 1)


class ReviewBrief(NamedTuple):
    """The object, the store and the status of a review."""

    entity: Entity
    store_id: str | None
    status: ReviewStatus


class FeedbackRepository:
    """Reads and writes the fields of reviews that feedback changes."""

    def __init__(self, database: Database) -> None:
        self._reviews = database[COLLECTION]
        self._reports = ReportRepository(database)

    async def brief(self, id: str) -> ReviewBrief | None:
        """The object, the store and the status of a review; None if there is no such review."""
        found = await self._reviews.find_one({"_id": id, **IS_REVIEW}, _BRIEF)
        if found is None:
            return None
        return read(REVIEW, _brief_from, found)

    async def load(
        self, ids: Collection[str], session: Session, *, with_texts: bool = False
    ) -> dict[str, ReviewFeedback]:
        """These reviews by id; unknown ones are left out."""
        fields = _READ | _TEXT if with_texts else _READ
        found = self._reviews.find({"_id": {"$in": list(ids)}, **IS_REVIEW}, fields, session=session)
        return {document["_id"]: read(REVIEW, _feedback_from, document) async for document in found}

    async def save(self, reviews: Mapping[str, ReviewFeedback], session: Session) -> None:
        """Write the feedback on reviews, which doesn't count as a modification of them."""
        writes = [UpdateOne({"_id": id}, _update(review)) for id, review in reviews.items()]
        await write_all(self._reviews, writes, session)

    async def keep_from_deletion(self, ids: Collection[str], session: Session) -> None:
        """Keep these reviews from being deleted until the transaction ends: it conflicts with those that delete one,
        and is repeated if one was deleted since it began."""
        if ids:
            kept = {"_id": {"$in": list(ids)}}
            # An update that changes nothing would not conflict, so this sets a field and removes it again.
            await self._reviews.update_many(kept, {"$set": {"keptFromDeletion": True}}, session=session)
            await self._reviews.update_many(kept, {"$unset": {"keptFromDeletion": ""}}, session=session)

    async def settle(self, decisions: Mapping[str, Moderation], session: Session) -> None:
        """Settle the open reports about these reviews, each by its decision; the reviews then count none."""
        if decisions:
            await self._reports.settle(decisions, session)
            reset = {"$unset": {"reports": ""}}
            await self._reviews.update_many({"_id": {"$in": list(decisions)}}, reset, session=session)

    async def settle_some(self, review_id: str, decision: Moderation, before: datetime, session: Session) -> int:
        """Settle some of very many reports about a review, as `ReportRepository.settle_some` does; others count on."""
        if count := await self._reports.settle_some(review_id, decision, before, session):
            await self._reviews.update_one({"_id": review_id, **IS_REVIEW}, _less("reports", count), session=session)
        return count

    async def subtract_votes(self, votes: Mapping[str, Vote], session: Session) -> None:
        """Subtract a vote on each of these reviews, by id, from its counter; the rest of a review may be damaged."""
        for name, helpful in (("helpful", True), ("notHelpful", False)):
            ids = [id for id, vote in votes.items() if vote.helpful is helpful]
            counted: Document = {"_id": {"$in": ids}, name: {"$gt": 0}}
            await self._reviews.update_many(counted, _less(name, 1), session=session)


def _less(counter: str, count: int) -> list[Document]:
    """The update that subtracts from a counter, and removes it if nothing is left."""
    left = {"$subtract": [f"${counter}", count]}
    return [{"$set": {counter: {"$cond": [{"$gt": [left, 0]}, left, "$$REMOVE"]}}}]


def _brief_from(document: Document) -> ReviewBrief:
    entity = Entity(document["entityType"], document["entityId"])
    return ReviewBrief(entity, document["storeId"], ReviewStatus(document["status"]))


def _feedback_from(document: Document) -> ReviewFeedback:
    reply, replied = document.get("reply"), document.get("repliedAt")
    return ReviewFeedback(
        Entity(document["entityType"], document["entityId"]),
        document["storeId"],
        reply_from(reply) if reply else None,
        RecordPosition(*replied) if replied else None,
        responses_from(document),
        text_hash(document["title"], document["review"]) if "review" in document else None,
    )


def _update(review: ReviewFeedback) -> Document:
    optional: Document = {
        "reply": review.reply and reply_fields(review.reply),
        "repliedAt": review.replied and list(review.replied),
        **responses_fields(review.responses),
    }
    return update_of({}, optional)
