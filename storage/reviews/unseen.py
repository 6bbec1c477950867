"""Reviews with images that are hidden until a moderator has seen them, by an index that has no others.

An approval changes that index only if it hides an image (docs/decisions/0012-few-indexes-where-transactions-write.md).
"""

from typing import Final

from pymongo import ASCENDING, IndexModel

from storage.database import Document
from storage.reviews.shape import NEWEST

IN_INDEX: Final[Document] = {"images.unseen": True}
"""The condition for the reviews in the index; images of some aren't ready yet."""

UNSEEN: Final[Document] = {"$elemMatch": {"unseen": True, "pending": {"$ne": True}}}
"""The condition on a review's images that one is ready, and hidden until a moderator has seen it."""

INDEX: Final = IndexModel(
    [("images.unseen", ASCENDING), *NEWEST],
    name="unseen_images",
    partialFilterExpression=IN_INDEX,
)
