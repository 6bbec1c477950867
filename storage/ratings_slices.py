"""All reviews and tallies in slices by object, each of which the memory holds at once."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from pymongo.asynchronous.collection import AsyncCollection

from storage.database import Document

_TEXTS: Final = {"$gte": ""}
_NO_TEXTS: Final = {"$not": _TEXTS}
"""MongoDB compares values of a type: all others, and a missing one, are outside of the range, which an index knows."""


async def slices(collections: Sequence[AsyncCollection[Document]], size: int) -> AsyncIterator[Document]:
    """Conditions on `entityType` and `entityId`, of which every document of these collections meets one.

    A slice ends with an object, and has so many documents of each collection at most before that object's. Those that
    have lost their object have slices of their own. Each condition is made when the one before has been used.
    """
    yield {"entityType": _NO_TEXTS}
    types: Document = _TEXTS
    while (entity_type := await _lowest(collections, "entityType", {"entityType": types})) is not None:
        yield _within(entity_type, _NO_TEXTS)
        ids: Document = _TEXTS
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
    """The lowest value of a field in any of the collections, in each behind so many documents; answered by indexes."""
    found = [await each.find_one(condition, {"_id": 0, name: 1}, sort=[(name, 1)], skip=skip) for each in collections]
    return min((document[name] for document in found if document is not None), default=None)
