"""Commands over a collection in ranges of ids: a single one over all of it could exceed the timeout of a minute."""

from collections.abc import AsyncIterator
from typing import Any, Final

from bson import ObjectId
from pymongo import ASCENDING
from pymongo.asynchronous.collection import AsyncCollection

from storage.database import Document

TEXTS: Final[Document] = {"$gte": ""}
OBJECT_IDS: Final[Document] = {"$gte": ObjectId(bytes(12))}
OBJECTS: Final[Document] = {"$gte": {}}
"""The conditions on `_id` that every id of a type meets."""

SIZE: Final = 5_000
"""Documents in a range: even at 10 ms for each, as on a cold disk, it takes less than the timeout of a minute."""


async def id_ranges(collection: AsyncCollection[Document], ids: Document, size: int = SIZE) -> AsyncIterator[Document]:
    """Conditions on `_id` that together cover all ids meeting `ids`, say {"$gt": "a"}: each is met by `size` documents,
    the last one by fewer. All these ids have one type. A condition is computed once the one before has been used."""
    while (last := await last_of_range(collection, ids, size)) is not None:
        yield {"_id": {**ids, "$lte": last}}
        ids = {"$gt": last}
    yield {"_id": ids}


async def found_in_ranges(
    collection: AsyncCollection[Document], ids: Document, wanted: Document, fields: Document | None = None
) -> AsyncIterator[Document]:
    """All matching documents with such ids, by id, however few they are among however many others."""
    async for within in id_ranges(collection, ids):
        found = collection.find({"$and": [within, wanted]}, fields).sort("_id", ASCENDING).hint("_id_")
        async for document in found:
            yield document


async def update_in_ranges(
    collection: AsyncCollection[Document], ids: Document, wanted: Document, change: Document
) -> int:
    """Update all matching documents with such ids; returns the number changed."""
    count = 0
    async for within in id_ranges(collection, ids):
        updated = await collection.update_many({"$and": [within, wanted]}, change, hint="_id_")
        count += updated.modified_count
    return count


async def last_of_range(collection: AsyncCollection[Document], ids: Document, size: int) -> Any:
    """The last of the first `size` ids that meet `ids`, read from the index of ids alone; None if there are fewer."""
    found = collection.find({"_id": ids}, {"_id": 1}).sort("_id", ASCENDING).skip(size - 1).limit(1)
    return next((document["_id"] for document in await found.to_list()), None)
