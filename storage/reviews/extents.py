"""The size of a store's reviews, with images and facts of objects, to size a feed before it is written."""

from typing import Final, NamedTuple

from storage.database import Database
from storage.objects import COLLECTION as OBJECTS
from storage.reviews.repository import COLLECTION as REVIEWS
from storage.reviews.search import ReviewSearch, criteria


class Extent(NamedTuple):
    """The size of some reviews."""

    reviews: int
    """The number of reviews."""
    bytes: int
    """Stored bytes of the reviews."""
    images: int = 0
    """The number of images."""
    object_bytes: int = 0
    """Stored bytes of the facts of their objects, counted once for each review."""


_OBJECT: Final = {"entityType": "$entityType", "entityId": "$entityId"}
_IMAGES: Final = {"$cond": [{"$isArray": "$images"}, {"$size": {"$ifNull": ["$images", []]}}, 0]}
_SUMS: Final = {"reviews": {"$sum": 1}, "bytes": {"$sum": {"$bsonSize": "$$ROOT"}}, "images": {"$sum": _IMAGES}}
_FACT_BYTES: Final = {"$sum": {"$map": {"input": "$objects", "in": {"$bsonSize": "$$this"}}}}


class Extents:
    """Computes the extents of reviews in MongoDB."""

    def __init__(self, database: Database) -> None:
        self._reviews = database[REVIEWS]

    async def extent(self, search: ReviewSearch) -> Extent:
        """The extent of the matching reviews, without `object_bytes`; MongoDB examines at most `take` of them."""
        found = await self._reviews.aggregate(
            [{"$match": criteria(search)}, {"$limit": search.take}, {"$group": {"_id": None, **_SUMS}}]
        )
        sizes = [Extent(each["reviews"], each["bytes"], each["images"]) for each in await found.to_list()]
        return next(iter(sizes), Extent(0, 0))

    async def object_bytes(self, search: ReviewSearch) -> int:
        """Stored bytes of the facts of the matching reviews' objects, once for each review; MongoDB examines at most
        `take` reviews, and each object."""
        # The facts for the store, and those for all stores.
        stores = [{"$literal": search.store_id}, None]
        keys = [{"entityType": "$_id.entityType", "entityId": "$_id.entityId", "storeId": store} for store in stores]
        found = await self._reviews.aggregate(
            [
                {"$match": criteria(search)},
                {"$limit": search.take},
                {"$group": {"_id": _OBJECT, "reviews": {"$sum": 1}}},
                {"$set": {"keys": keys}},
                {"$lookup": {"from": OBJECTS, "localField": "keys", "foreignField": "_id", "as": "objects"}},
                {"$group": {"_id": None, "told": {"$sum": {"$multiply": ["$reviews", _FACT_BYTES]}}}},
            ]
        )
        return sum([int(each["told"]) for each in await found.to_list()])
