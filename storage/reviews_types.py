"""The types of a search that names none: indexes of reviews and tallies begin with the type, then comes the object."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pymongo.asynchronous.collection import AsyncCollection

from storage.database import Document
from storage.reviews_search import ReviewSearch

MOST_TYPES: Final = 100
"""With more types MongoDB is left to look at everything."""


async def with_types(reviews: AsyncCollection[Document], search: ReviewSearch) -> ReviewSearch:
    """The same search with all types that these reviews or tallies have, if it names objects without one.

    The database skips from type to type in an index. Among them is null, for what has lost its type.
    """
    if search.entity_ids is None or search.entity_types is not None:
        return search
    found = await reviews.aggregate([{"$group": {"_id": "$entityType"}}, {"$limit": MOST_TYPES + 1}])
    types = {document["_id"] async for document in found}
    return search if len(types) > MOST_TYPES else replace(search, entity_types=[*types | {None}])
