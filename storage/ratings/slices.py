"""All reviews and tallies in slices by object that fit into memory."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from pymongo.asynchronous.collection import AsyncCollection

from storage.database import Document
from storage.id_ranges import TEXTS

_NO_TEXTS: Final = {"$not": TEXTS}
"""The condition for other types and missing fields: a range in MongoDB covers one type alone. An index serves it."""


async def slices(collections: Sequence[AsyncCollection[Document]], size: int) -> AsyncIterator[Document]:
    """Conditions on `entityType` and `entityId` that together cover these collections; each document meets one of them.

    A slice ends with an object, and has at most `size` documents of each collection before those of that object.
    Documents that have lost their object have slices of their own. A condition is computed once the one before has been
    used.
    """
    yield {"entityType": _NO_TEXTS}
    types = TEXTS
    while (entity_type := await _lowest(collections, "entityType", {"entityType": types})) is not None:
        yield _within(entity_type, _NO_TEXTS)
        ids = TEXTS
        while (last := await _lowest(collections, "entityId", _within(entity_type, ids), skip=size)) is not None:
            yield _within(entity_type, {**ids, "$lte": last})
            ids = {"$gt": last}
        yield _within(entity_type, ids)
        types = {"$gt": entity_type}


def _within(entity_type: str, ids: Document) -> Document:
    return {"entityType": entity_type, "entityId": ids}


async def _lowest(
    collections: Sequence[AsyncCollection[Document]], name: str, condition: Document, skip: int = 0
) -> str | None:
    """The lowest value of a field in any of the collections, skipping documents in each; read from indexes alone."""
    found = [await each.find_one(condition, {"_id": 0, name: 1}, sort=[(name, 1)], skip=skip) for each in collections]
    return min((document[name] for document in found if document is not None), default=None)
