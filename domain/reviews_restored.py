"""The past of imported reviews: a review takes the state that it had in its original installation."""

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from domain.delivery import Seen
from domain.reviews import ReviewStatus
from domain.reviews_facts import BY_VERDICT, Source, verdict_flags

if TYPE_CHECKING:
    from domain.moderation import ModeratedReview, Moderation


class Restored(NamedTuple):
    """The past of a review: its status and last change, the rules that held it, and its facts."""

    status: ReviewStatus
    modified: datetime
    """Time of the last change."""
    flags: tuple[str, ...] | None = None
    """None: unknown, and the present flags stay."""
    source: Source | None = None
    language: str | None = None
    is_verified: bool = False
    """True if its purchase was proven there: it stays proven, since the orders that prove it are not here."""

    @property
    def is_held(self) -> bool:
        """True if a rule held or flagged it there: while it is New, no classifier approves it here."""
        flags = self.flags or ()
        return len(flags) > len(verdict_flags(flags))

    def behind(self, earlier: "Restored") -> "Restored":
        """This past applied after an earlier one: flags that it doesn't know stay, and so does a proven purchase."""
        flags = earlier.flags if self.flags is None else self.flags
        return self._replace(flags=flags, is_verified=self.is_verified or earlier.is_verified)


def restore(review: "ModeratedReview", command: "Moderation", restored: Restored, seen: Seen) -> "ModeratedReview":
    """The review with its past restored. Its reports and the flags of classifiers stay.

    It stays as it is if it wasn't imported, was created here after that past, already has a past that isn't older, or
    was changed here since. A repeat changes nothing. A change in the future is dated at the command.
    """
    modified = min(restored.modified, command.at)
    if not _takes(review, restored.status, modified):
        return review._replace(seen=seen)
    if restored.flags is not None:
        restored = restored._replace(flags=tuple(dict.fromkeys((*restored.flags, *verdict_flags(review.flags)))))
    return review._replace(
        status=restored.status,
        seen=seen,
        modified=modified,
        moderator=command.moderator,
        reason=command.reason,
        reason_code=command.reason_code,
        restored_at=modified,
        restored=restored.behind(review.restored) if review.restored else restored,
    )


def _takes(review: "ModeratedReview", status: ReviewStatus, modified: datetime) -> bool:
    """True if the review takes a past with this status, from that moment.

    A classifier's approval here doesn't prevail over a decision that a moderator made there.
    """
    is_by_verdict = (review.moderator or "").startswith(BY_VERDICT) and status is not ReviewStatus.NEW
    if review.modified is None:
        return False
    if review.restored_at is not None:
        return modified > review.restored_at and (review.modified == review.restored_at or is_by_verdict)
    if review.imported is None or (review.imported == review.created and modified < review.imported):
        return False
    return review.modified <= review.imported or is_by_verdict
