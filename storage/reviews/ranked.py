"""The most helpful reviews first: few have votes, and an index holds only those."""

from typing import Final

from pymongo import DESCENDING, IndexModel
from pymongo.asynchronous.collection import AsyncCollection

from domain.sorting import Direction
from storage.database import Document
from storage.reviews.search import ReviewSearch, ReviewSortField, criteria, order
from storage.reviews.shape import BY_ENTITY, NEWEST

HELPFUL: Final = IndexModel(
    [*BY_ENTITY, ("helpful", DESCENDING), *NEWEST],
    name="helpful",
    partialFilterExpression={"helpful": {"$gt": 0}},
)
"""Approvals add nothing to it."""


def ranks_by_votes(search: ReviewSearch) -> bool:
    """True for a search for reviews of certain objects, the most helpful first."""
    return search.entity_ids is not None and list(search.sort[:1]) == [(ReviewSortField.HELPFUL, Direction.DESC)]


async def ranked(
    reviews: AsyncCollection[Document], search: ReviewSearch, projection: Document, limit: int
) -> list[Document]:
    """The documents of a page ranked by votes, at most `limit`: those with votes, then the others."""
    conditions, keys = criteria(search), order(search)
    voted: Document = {"$and": [conditions, {"helpful": {"$gt": 0}}]}
    found = await reviews.find(voted, projection).sort(keys).skip(search.skip).limit(limit).to_list()
    if len(found) == limit:
        return found
    skip = 0
    if search.skip and not found:
        skip = max(0, search.skip - await reviews.count_documents(voted))
    others: Document = {"$and": [conditions, {"helpful": None}]}
    rest = reviews.find(others, projection).sort(keys[1:]).skip(skip).limit(limit - len(found))
    return found + await rest.to_list()
