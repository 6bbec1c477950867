"""A collection in ranges of ids, so that no command looks at all of it: one that takes a minute is given up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from pymongo import ASCENDING
from pymongo.asynchronous.collection import AsyncCollection

from storage.database import Document

SIZE: Final = 5_000
"""Documents in a range: at ten milliseconds for each, as of a cold disk, still less than the limit of a minute."""


async def id_ranges(collection: AsyncCollection[Document], ids: Document, size: int = SIZE) -> AsyncIterator[Document]:
    """Conditions on `_id`, each met by so many documents; every id that is as `ids` asks, say {"$gt": "a"}, meets one.
    These are of one type. Each condition is made when the one before has been used."""
    while (last := await last_of_range(collection, ids, size)) is not None:
        yield {"_id": {**ids, "$lte": last}}
        ids = {"$gt": last}
    yield {"_id": ids}


async def last_of_range(collection: AsyncCollection[Document], ids: Document, size: int) -> Any:
    """The last one of so many ids, by the index of ids alone; None if there are fewer."""
    found = collection.find({"_id": ids}, {"_id": 1}).sort("_id", ASCENDING).skip(size - 1).limit(1)
    return next((document["_id"] for document in await found.to_list()), None)
