"""Reviews as verdicts read and write them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from pymongo import UpdateOne

from domain.moderation_rules_text import text_hash
from domain.ratings import Entity
from domain.reviews import ReviewStatus
from domain.verdicts import VerdictReview
from storage.database import Database, Document, Session, write_all
from storage.reviews import COLLECTION as REVIEWS
from storage.reviews_shape import IS_REVIEW, REVIEW, is_uncertain
from storage.seen import seen_document, seen_from
from storage.shapes import read

_READ: Final[Document] = dict.fromkeys(
    (
        *("entityType", "entityId", "storeId", "ratingHundredths", "status", "title", "review", "flags", "held"),
        *("verdictsSeen", "modifiedDate", "moderator", "moderationReason"),
    ),
    1,
)


class VerdictRepository:
    """Reads and writes what verdicts change."""

    def __init__(self, database: Database) -> None:
        self._reviews = database[REVIEWS]

    async def load(self, ids: Collection[str], session: Session) -> dict[str, VerdictReview]:
        """These reviews by id; those that don't exist are left out."""
        wanted = {"_id": {"$in": list(ids)}, **IS_REVIEW}
        found = self._reviews.find(wanted, _READ, session=session)
        return {document["_id"]: _verdict_review(document) async for document in found}

    async def save(self, reviews: Mapping[str, VerdictReview], session: Session) -> None:
        """Write reviews as verdicts left them."""
        writes = [UpdateOne({"_id": id}, _update(review)) for id, review in reviews.items()]
        await write_all(self._reviews, writes, session)


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
