"""Object types for a search that names none: indexes of reviews and tallies begin with the type, then the object."""

from dataclasses import replace
from typing import Final

from pymongo.asynchronous.collection import AsyncCollection

from storage.database import Database, Document
from storage.reviews.search import ReviewSearch
from storage.reviews.shape import REVIEW

MOST_TYPES: Final = 100
"""The maximum number of types to search by; with more, MongoDB scans everything."""

_MOST_LISTED: Final = 10_000


async def reviewed_types(database: Database) -> list[str] | None:
    """The types of all objects that have a review, sorted; None if there are too many to list."""
    types = await types_of(database[REVIEW.collection], _MOST_LISTED + 1)
    return None if len(types) > _MOST_LISTED else sorted(type for type in types if type is not None)


async def types_of(reviews: AsyncCollection[Document], limit: int) -> set[str | None]:
    """The types of these reviews or tallies, at most `limit`."""
    found = await reviews.aggregate([{"$group": {"_id": "$entityType"}}, {"$limit": limit}])
    return {document["_id"] async for document in found}


async def with_types(reviews: AsyncCollection[Document], search: ReviewSearch) -> ReviewSearch:
    """The search with all types of these reviews or tallies, if it names objects without a type.

    The database skips from type to type in an index. Null is among them, for documents that have lost their type.
    """
    if search.entity_ids is None or search.entity_types is not None:
        return search
    types = await types_of(reviews, MOST_TYPES + 1)
    return search if len(types) > MOST_TYPES else replace(search, entity_types=[*types | {None}])
