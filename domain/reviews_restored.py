"""The past that an import brings along: a review becomes what it was in the installation that it comes from."""

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from domain.reviews import ReviewStatus
from domain.reviews_facts import BY_VERDICT, Source, verdict_flags

if TYPE_CHECKING:
    from domain.delivery import Seen
    from domain.moderation import ModeratedReview, Moderation


class Restored(NamedTuple):
    """The past of a review: its status, the time of its last change, the rules that held it back, and its facts.

    `flags`: None where they are not known: those that there are stay. `is_verified`: its purchase was proven there; the
    orders that did are not here, so it stays proven.
    """

    status: ReviewStatus
    modified: datetime
    flags: tuple[str, ...] | None = None
    source: Source | None = None
    language: str | None = None
    is_verified: bool = False

    @property
    def is_held(self) -> bool:
        """True if a rule held it back or flagged it there: while it is New, no classifier approves it here."""
        flags = self.flags or ()
        return len(flags) > len(verdict_flags(flags))

    def behind(self, earlier: "Restored") -> "Restored":
        """This past once it has come behind an earlier one: flags that it doesn't know stay, and so does a proof."""
        flags = earlier.flags if self.flags is None else self.flags
        return self._replace(flags=flags, is_verified=self.is_verified or earlier.is_verified)


def restore(review: "ModeratedReview", command: "Moderation", restored: Restored, seen: "Seen") -> "ModeratedReview":
    """The review as it was; one that wasn't imported, began here later, has a past that isn't older, or has changed
    here since then, stays as it is. Its reports and the flags of classifiers stay.

    A repeat comes to the same. No change is from the future.
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
    """True if the review takes a past with this status, of that moment.

    A classifier's approval is no decision against one that a moderator made there.
    """
    is_by_verdict = (review.moderator or "").startswith(BY_VERDICT) and status is not ReviewStatus.NEW
    if review.modified is None:
        return False
    if review.restored_at is not None:
        return modified > review.restored_at and (review.modified == review.restored_at or is_by_verdict)
    if review.imported is None or (review.imported == review.created and modified < review.imported):
        return False
    return review.modified <= review.imported or is_by_verdict
