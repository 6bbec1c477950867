"""Claims of reviews: one review holds each, by the claim's `_id`, so that two reviews that want it conflict."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from pymongo import ASCENDING, IndexModel, UpdateOne

from domain.claims import Claim
from storage.database import Database, Session, write_all

COLLECTION: Final = "claims"

INDEXES: Final = [IndexModel([("reviewId", ASCENDING)], name="review")]


class ClaimRepository:
    """Assigns claims to reviews, in the transaction that stores the reviews."""

    def __init__(self, database: Database) -> None:
        self._claims = database[COLLECTION]

    async def holders(self, claims: Iterable[Claim], session: Session) -> dict[str, str]:
        """The id of the review that holds each of these claims, by the claim's id."""
        ids = [claim.id for claim in claims]
        if not ids:
            return {}
        found = self._claims.find({"_id": {"$in": ids}}, session=session)
        return {document["_id"]: document["reviewId"] async for document in found}

    async def give(self, holders: Mapping[str, str], session: Session) -> None:
        """Give claims to reviews: the id of the review by the claim's id."""
        writes = [
            # The previous version frees only claims with `isKept` false.
            UpdateOne({"_id": id}, {"$set": {"reviewId": review_id, "isKept": False}}, upsert=True)
            for id, review_id in holders.items()
        ]
        await write_all(self._claims, writes, session)

    async def free(self, review_ids: Collection[str], session: Session) -> None:
        """Free the claims of deleted reviews."""
        await self._claims.delete_many({"reviewId": {"$in": list(review_ids)}}, session=session)
