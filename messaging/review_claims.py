"""Claims of moderators on reviews: advisory, for two minutes, so that two of them don't read the same one."""

from typing import Final

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from messaging.schemas import ShownMoment

CLAIM_S: Final = 120
"""Seconds for which a claim is shown."""


class ReviewClaimed(TypedDict):
    """A moderator looks at a review. `subject` is who, null without authentication; `desk` tells their browser from
    others, where it says so."""

    reviewId: str
    storeId: str | None
    subject: str | None
    desk: str | None
    at: ShownMoment


REVIEW_CLAIMED: Final[TypeAdapter[ReviewClaimed]] = TypeAdapter(ReviewClaimed)
