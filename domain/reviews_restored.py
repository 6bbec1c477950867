"""Moderation that an import brings along: a review becomes what it was in the installation that it comes from."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from domain.delivery import Seen
    from domain.reviews import ModeratedReview, Moderation, ReviewStatus


class Restored(NamedTuple):
    """What moderation had made of a review: its status, the time of its last change, the rules that held it back."""

    status: ReviewStatus
    modified: datetime
    flags: tuple[str, ...] = ()


def restore(review: ModeratedReview, command: Moderation, restored: Restored, seen: Seen) -> ModeratedReview:
    """The review as it was; one that wasn't imported, or has changed here since then, stays as it is. Its reports stay
    open.

    A repeat comes to the same. No change is from the future.
    """
    modified = min(restored.modified, command.at)
    is_changed = review.modified is not None and review.modified > modified
    if is_changed or not review.is_imported:
        return replace(review, seen=seen)
    return replace(
        review,
        status=restored.status,
        seen=seen,
        modified=modified,
        moderator=command.moderator,
        reason=command.reason,
        reason_code=command.reason_code,
        flags=restored.flags,
    )
