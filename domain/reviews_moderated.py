"""Reviews as moderation reads and writes them, also the past of imported ones: the state that such a review had in its
original installation."""

from datetime import datetime
from typing import NamedTuple

from domain.delivery import NOTHING_SEEN, Seen
from domain.ratings import Entity, Hundredths, TallyKey
from domain.reviews import ReviewStatus
from domain.reviews_facts import BY_VERDICT, ReasonCode, ReviewImage, Source, verdict_flags


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


class ModeratedReview(NamedTuple):
    """The part of a review that moderation reads and writes."""

    entity: Entity
    store_id: str | None
    rating: Hundredths
    status: ReviewStatus | None
    """None: the review has been deleted."""
    seen: Seen = NOTHING_SEEN
    """The applied records of moderation."""
    modified: datetime | None = None
    moderator: str | None = None
    reason: str | None = None
    reason_code: ReasonCode | None = None
    was_coded: bool = False
    """True if a reason code is stored."""
    reports: int = 0
    """Number of open reports."""
    user_id: str | None = None
    created: datetime | None = None
    imported: datetime | None = None
    """Time of its import."""
    restored_at: datetime | None = None
    """Time of the last change in `restored`; equal to `modified` until the review is changed here."""
    restored: Restored | None = None
    """The past that an import has restored."""
    flags: tuple[str, ...] = ()
    is_held: bool = False
    """True if a rule requires a moderator to see it."""
    images: tuple[ReviewImage, ...] = ()
    is_uncertain: bool = False
    """True if data is missing that its rating depends on, so that the tally has to be counted."""
    text_hash: str = ""
    verdicts: Seen = NOTHING_SEEN
    """The applied records of verdicts of classifiers."""

    @property
    def key(self) -> TallyKey:
        """The key of its rating."""
        return TallyKey(self.entity, self.store_id)

    @property
    def may_be_planned(self) -> bool:
        """True if its approval may be planned: a rule that holds or flags it can set a time for that."""
        return self.is_held or bool(self.flags)


def restore(review: ModeratedReview, past: Restored, at: datetime) -> ModeratedReview:
    """The review with a past that a command restored at that moment. Its reports and the flags of classifiers stay.

    It is returned as it is if it wasn't imported, was created here after that past, already has a past that isn't
    older, or was changed here since. A repeat changes nothing. A change in the future is dated at the command.
    """
    modified = min(past.modified, at)
    if not _takes(review, past.status, modified):
        return review
    if past.flags is not None:
        past = past._replace(flags=tuple(dict.fromkeys((*past.flags, *verdict_flags(review.flags)))))
    whole = past.behind(review.restored) if review.restored else past
    return review._replace(status=past.status, modified=modified, restored_at=modified, restored=whole)


def _takes(review: ModeratedReview, status: ReviewStatus, modified: datetime) -> bool:
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
