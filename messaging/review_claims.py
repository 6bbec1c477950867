"""Claims of moderators on reviews: advisory, for two minutes, so that two moderators don't read the same review."""

from typing import Final

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from messaging.schemas import ShownMoment

CLAIM_S: Final = 120
"""Seconds for which a claim is shown."""


class ReviewClaimed(TypedDict):
    """A moderator is looking at a review. `subject`: the moderator, null without authentication. `desk`: their browser,
    if it identifies itself."""

    reviewId: str
    storeId: str | None
    subject: str | None
    desk: str | None
    at: ShownMoment


REVIEW_CLAIMED: Final[TypeAdapter[ReviewClaimed]] = TypeAdapter(ReviewClaimed)
