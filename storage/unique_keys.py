"""Unique keys of reviews: one review holds each, by the `_id`, so that two reviews that want it conflict."""

from collections.abc import Collection, Mapping
from typing import Final

from pymongo import ASCENDING, IndexModel

from storage.database import Database, Session

COLLECTION: Final = "claims"

INDEXES: Final = [IndexModel([("reviewId", ASCENDING)], name="review")]


class UniqueKeyRepository:
    """Gives unique keys to reviews, in the transaction that stores the reviews."""

    def __init__(self, database: Database) -> None:
        self._keys = database[COLLECTION]

    async def holders(self, keys: Collection[str], session: Session) -> dict[str, str]:
        """The id of the review that holds each of these keys; free keys are left out."""
        if not keys:
            return {}
        found = self._keys.find({"_id": {"$in": list(keys)}}, session=session)
        return {document["_id"]: document["reviewId"] async for document in found}

    async def give(self, holders: Mapping[str, str], session: Session) -> None:
        """Give free keys to reviews: the id of the review by the key."""
        # 0.1.0 frees only those with `isKept` false.
        keys = [{"_id": key, "reviewId": review_id, "isKept": False} for key, review_id in holders.items()]
        if keys:  # MongoDB would take several times as long for upserts
            await self._keys.insert_many(keys, ordered=False, session=session)

    async def free(self, review_ids: Collection[str], session: Session) -> None:
        """Free the keys of deleted reviews."""
        await self._keys.delete_many({"reviewId": {"$in": list(review_ids)}}, session=session)
