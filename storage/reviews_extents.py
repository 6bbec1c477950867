"""The size of a store's reviews, with what is told of their objects and images: of a feed, before it is written."""

from typing import Final, NamedTuple

from storage.database import Database
from storage.objects import COLLECTION as OBJECTS
from storage.reviews import COLLECTION as REVIEWS
from storage.reviews_search import ReviewSearch, criteria


class Extent(NamedTuple):
    """So many reviews, the bytes that they take, their images, and the bytes that what is told of their objects takes,
    as often as there are reviews of these."""

    reviews: int
    bytes: int
    images: int = 0
    object_bytes: int = 0


_OBJECT: Final = {"entityType": "$entityType", "entityId": "$entityId"}
_IMAGES: Final = {"$cond": [{"$isArray": "$images"}, {"$size": {"$ifNull": ["$images", []]}}, 0]}
_SUMS: Final = {"reviews": {"$sum": 1}, "bytes": {"$sum": {"$bsonSize": "$$ROOT"}}, "images": {"$sum": _IMAGES}}
_TOLD: Final = {"$sum": {"$map": {"input": "$objects", "in": {"$bsonSize": "$$this"}}}}


class Extents:
    """The extents of reviews, which MongoDB works out."""

    def __init__(self, database: Database) -> None:
        self._reviews = database[REVIEWS]

    async def extent(self, search: ReviewSearch) -> Extent:
        """The extent of the matching reviews, without `object_bytes`; MongoDB looks at `take` of them at most."""
        found = await self._reviews.aggregate(
            [{"$match": criteria(search)}, {"$limit": search.take}, {"$group": {"_id": None, **_SUMS}}]
        )
        sizes = [Extent(each["reviews"], each["bytes"], each["images"]) for each in await found.to_list()]
        return next(iter(sizes), Extent(0, 0))

    async def object_bytes(self, search: ReviewSearch) -> int:
        """The bytes that what is told of the objects of the matching reviews takes, once for each review; MongoDB looks
        at `take` reviews at most, and at each object."""
        # What was told for the store, and for all stores.
        stores = [{"$literal": search.store_id}, None]
        keys = [{"entityType": "$_id.entityType", "entityId": "$_id.entityId", "storeId": store} for store in stores]
        found = await self._reviews.aggregate(
            [
                {"$match": criteria(search)},
                {"$limit": search.take},
                {"$group": {"_id": _OBJECT, "reviews": {"$sum": 1}}},
                {"$set": {"keys": keys}},
                {"$lookup": {"from": OBJECTS, "localField": "keys", "foreignField": "_id", "as": "objects"}},
                {"$group": {"_id": None, "told": {"$sum": {"$multiply": ["$reviews", _TOLD]}}}},
            ]
        )
        return sum([int(each["told"]) for each in await found.to_list()])
