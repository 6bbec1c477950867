"""Claims of reviews: one review holds each, by the claim's `_id`, so that two reviews that want it conflict."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from pymongo import ASCENDING, IndexModel, UpdateOne

from domain.claims import Claim
from domain.reviews_refusals import Refusal
from storage.database import Database, Session, write_all

COLLECTION: Final = "claims"

INDEXES: Final = [IndexModel([("reviewId", ASCENDING)], name="review")]


class ClaimRepository:
    """Assigns claims to reviews, in the transaction that stores the reviews."""

    def __init__(self, database: Database) -> None:
        self._claims = database[COLLECTION]

    async def take(self, wanted: Mapping[str, Sequence[Claim]], session: Session) -> dict[str, Refusal]:
        """Assign claims to reviews, by review id. Returns the refusals of reviews that want a claim of another review.

        If two reviews want the same claim, the first gets it. A refused review gets none.
        """
        ids = {claim.id for claims in wanted.values() for claim in claims}
        if not ids:
            return {}
        found = self._claims.find({"_id": {"$in": list(ids)}}, session=session)
        holders: dict[str, str] = {document["_id"]: document["reviewId"] async for document in found}
        refused: dict[str, Refusal] = {}
        given: dict[Claim, str] = {}
        for review_id, claims in wanted.items():
            lost = next((claim for claim in claims if holders.get(claim.id, review_id) != review_id), None)
            if lost:
                refused[review_id] = lost.refusal
                continue
            holders |= dict.fromkeys((claim.id for claim in claims), review_id)
            given |= dict.fromkeys(claims, review_id)
        writes = [
            # The previous version frees only claims with `isKept` false.
            UpdateOne({"_id": claim.id}, {"$set": {"reviewId": id, "isKept": False}}, upsert=True)
            for claim, id in given.items()
        ]
        await write_all(self._claims, writes, session)
        return refused

    async def free(self, review_ids: Collection[str], session: Session) -> None:
        """Free the claims of deleted reviews."""
        await self._claims.delete_many({"reviewId": {"$in": list(review_ids)}}, session=session)
