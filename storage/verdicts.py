"""Reviews as verdicts read and write them, and verdicts that came before their reviews."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from pymongo import ASCENDING, IndexModel, UpdateOne

from domain.delivery import RecordPosition
from domain.moderation_rules_text import text_hash
from domain.ratings import Entity
from domain.reviews import ReviewStatus
from domain.verdicts import Verdict, VerdictReview
from messaging.verdicts import ModerationVerdict, verdict_value
from storage.database import Database, Document, Session, write_all
from storage.parking import take_out
from storage.reviews import COLLECTION as REVIEWS
from storage.reviews_shape import IS_REVIEW, REVIEW, is_uncertain
from storage.seen import seen_document, seen_from
from storage.shapes import read

PARKED: Final = "parkedVerdicts"

PARKED_INDEXES: Final = [
    IndexModel([("reviewId", ASCENDING)], name="review"),
    IndexModel([("parkedAt", ASCENDING)], name="parked"),
]

_READ: Final[Document] = dict.fromkeys(
    (
        *("entityType", "entityId", "storeId", "ratingHundredths", "status", "title", "review", "flags", "held"),
        *("verdictsSeen", "modifiedDate", "moderator", "moderationReason"),
    ),
    1,
)


class VerdictRepository:
    """Reads and writes what verdicts change, and keeps those whose reviews aren't there yet."""

    def __init__(self, database: Database) -> None:
        self._reviews = database[REVIEWS]
        self._parked = database[PARKED]

    async def load(self, ids: Collection[str], session: Session) -> dict[str, VerdictReview]:
        """These reviews by id; those that don't exist are left out."""
        wanted = {"_id": {"$in": list(ids)}, **IS_REVIEW}
        found = self._reviews.find(wanted, _READ, session=session)
        return {document["_id"]: _verdict_review(document) async for document in found}

    async def save(self, reviews: Mapping[str, VerdictReview], session: Session) -> None:
        """Write reviews as verdicts left them."""
        writes = [UpdateOne({"_id": id}, _update(review)) for id, review in reviews.items()]
        await write_all(self._reviews, writes, session)

    async def park(self, verdicts: Iterable[Verdict], at: datetime) -> None:
        """Park verdicts; one that is parked already stays as it is."""
        writes = [
            UpdateOne({"_id": _id(v)}, {"$setOnInsert": {**_parked(v), "parkedAt": at}}, upsert=True) for v in verdicts
        ]
        await self._parked.bulk_write(writes, ordered=False)

    async def parked_about(self, review_ids: Collection[str]) -> list[Verdict]:
        """The parked verdicts about these reviews."""
        if not await self._parked.find_one({}, {"_id": 1}):
            return []  # as nearly always
        return [_verdict(document) async for document in self._parked.find({"reviewId": {"$in": list(review_ids)}})]

    async def parked_before(self, moment: datetime, limit: int) -> list[Verdict]:
        """Verdicts that have been waiting since before that moment, the oldest first."""
        found = self._parked.find({"parkedAt": {"$lt": moment}}).sort("parkedAt").limit(limit)
        return [_verdict(document) async for document in found]

    async def release(self, verdicts: Iterable[Verdict]) -> None:
        """Remove verdicts that have been applied or given up."""
        await self._parked.delete_many({"_id": {"$in": [_id(verdict) for verdict in verdicts]}})

    async def take(self, verdicts: Iterable[Verdict], session: Session) -> list[Verdict]:
        """Remove verdicts within a transaction; returns those that nobody else has removed before."""
        by_id = {_id(verdict): verdict for verdict in verdicts}
        taken = await take_out(self._parked, by_id, session)
        return [verdict for id, verdict in by_id.items() if id in taken]


def _verdict_review(document: Document) -> VerdictReview:
    review = read(REVIEW, _review, document)
    return replace(review, is_uncertain=True) if is_uncertain(document) else review


def _review(document: Document) -> VerdictReview:
    return VerdictReview(
        Entity(document["entityType"], document["entityId"]),
        document["storeId"],
        document["ratingHundredths"],
        ReviewStatus(document["status"]),
        text_hash(document["title"], document["review"]),
        tuple(document.get("flags", ())),
        document.get("held", False),
        seen_from(document.get("verdictsSeen")),
        document["modifiedDate"],
        document.get("moderator"),
        document.get("moderationReason"),
    )


def _update(review: VerdictReview) -> Document:
    fields: Document = {
        "status": int(review.status),
        "modifiedDate": review.modified,
        "moderator": review.moderator,
        "moderationReason": review.reason,
        "verdictsSeen": seen_document(review.seen),
    }
    if review.flags:
        return {"$set": {**fields, "flags": list(review.flags)}}
    return {"$set": fields, "$unset": {"flags": ""}}


def _id(verdict: Verdict) -> str:
    return str(verdict.position)


def _parked(verdict: Verdict) -> Document:
    return {**verdict_value(verdict), "position": list(verdict.position), "trace": verdict.trace}


def _verdict(document: Document) -> Verdict:
    message = ModerationVerdict.model_validate(
        {name: document[name] for name in ("reviewId", "textHash", "source", "verdict", "labels", "score")},
        strict=False,
    )
    return message.about(RecordPosition(*document["position"]), document["trace"])
