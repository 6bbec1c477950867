"""A collection in ranges of ids, so that no command looks at all of it: one that takes a minute is given up."""

from collections.abc import AsyncIterator
from typing import Any, Final

from bson import ObjectId
from pymongo import ASCENDING
from pymongo.asynchronous.collection import AsyncCollection

from storage.database import Document

TEXTS: Final[Document] = {"$gte": ""}
OBJECT_IDS: Final[Document] = {"$gte": ObjectId(bytes(12))}
"""Every id of its type."""

SIZE: Final = 5_000
"""Documents in a range: at ten milliseconds for each, as of a cold disk, still less than the limit of a minute."""


async def id_ranges(collection: AsyncCollection[Document], ids: Document, size: int = SIZE) -> AsyncIterator[Document]:
    """Conditions on `_id`, each met by so many documents; every id that is as `ids` asks, say {"$gt": "a"}, meets one.
    These are of one type. Each condition is made when the one before has been used."""
    while (last := await last_of_range(collection, ids, size)) is not None:
        yield {"_id": {**ids, "$lte": last}}
        ids = {"$gt": last}
    yield {"_id": ids}


async def found_in_ranges(
    collection: AsyncCollection[Document], ids: Document, wanted: Document, fields: Document | None = None
) -> AsyncIterator[Document]:
    """All documents with such ids that are wanted, by id, however few they are among however many others."""
    async for within in id_ranges(collection, ids):
        found = collection.find({"$and": [within, wanted]}, fields).sort("_id", ASCENDING).hint("_id_")
        async for document in found:
            yield document


async def update_in_ranges(
    collection: AsyncCollection[Document], ids: Document, wanted: Document, change: Document
) -> int:
    """Update all documents with such ids that are wanted; returns how many were changed."""
    count = 0
    async for within in id_ranges(collection, ids):
        updated = await collection.update_many({"$and": [within, wanted]}, change, hint="_id_")
        count += updated.modified_count
    return count


async def last_of_range(collection: AsyncCollection[Document], ids: Document, size: int) -> Any:
    """The last one of so many ids, by the index of ids alone; None if there are fewer."""
    found = collection.find({"_id": ids}, {"_id": 1}).sort("_id", ASCENDING).skip(size - 1).limit(1)
    return next((document["_id"] for document in await found.to_list()), None)
