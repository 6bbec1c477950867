"""Edits: a submission with the id of a stored review changes the review's content."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from domain.commands import CommandMark, Outcome
from domain.delivery import RecordPosition, content_digest
from domain.images import ClaimableImages, images_after_edit, ready_among, with_new_hidden, with_pending
from domain.moderation_rules import NO_RULING, Ruling
from domain.permissions import Caller, Permission, is_within
from domain.ratings import RatingTally, TallyKey, add_change
from domain.review_tokens import ReviewToken
from domain.reviews import CONTENT_FIELDS, Content, Review, ReviewIdentity, ReviewStatus, counted
from domain.reviews_facts import ReviewImage, verdict_flags
from domain.reviews_refusals import Refusal
from domain.timestamps import from_milliseconds


class EditRight(StrEnum):
    """The right to edit a review: as its author, or as a moderator."""

    AUTHOR = "author"
    MODERATOR = "moderator"


@dataclass(frozen=True, slots=True)
class Edit:
    """A submission for a stored review."""

    review_id: str
    target: ReviewIdentity
    """The identity of the review as far as the submission names it."""
    content: Content
    position: RecordPosition
    message: int
    """The digest of its message, by which a repeat is recognised."""
    record: int
    """The digest of its record, by which a redelivered replay is recognised after a refusal."""
    at: datetime
    right: EditRight | None = EditRight.AUTHOR
    """None: the sender has no right to edit."""
    editor: str | None = None
    stores: Collection[str] | None = None
    refusal: Refusal | None = None
    """The objection of the store's rules, which bind authors only."""
    token: ReviewToken | None = None
    """Its valid review token, which it uses up, and which verifies the review."""
    keeps_pending: bool = False
    """True if the images being rebuilt, which the sender can't see, are kept beside its images."""
    command_id: str | None = None
    mark: CommandMark | None = None
    trace: str = ""

    @property
    def answer_key(self) -> tuple[str, str] | None:
        """The key of its stored outcome, if it has one."""
        return (self.command_id, self.review_id) if self.command_id else None

    def may_touch(self, identity: ReviewIdentity) -> bool:
        """True if its sender may edit the review with this identity."""
        return is_within(self.stores, identity.store_id) and is_same_review(self.target, identity, self.right)


class EditImages(NamedTuple):
    """The images that an edit names, at its turn."""

    refusal: Refusal | None = None
    """The objection to one of them, which binds every sender."""
    ready: Collection[str] = ()
    """The ids of those that can be shown, from `effective` on."""
    effective: datetime | None = None
    """The time at which the edit takes effect."""


NO_IMAGES: Final = EditImages()

Judge = Callable[[str, Review], Ruling | None]
"""Returns the ruling about a review, given its id and the review after an edit; None in a store without rules."""

Languages = Mapping[str, str | None]
"""The languages of reviews by id; None if undetectable."""

NO_LANGUAGES: Final[Languages] = MappingProxyType({})


class Edited(NamedTuple):
    """The result of one edit, with the status before and after."""

    outcome: Outcome
    reason: Refusal | None = None
    fields: tuple[str, ...] = ()
    """The names of the changed fields in the interface."""
    before: ReviewStatus = ReviewStatus.NEW
    after: ReviewStatus = ReviewStatus.NEW
    is_repeat: bool = False
    ruling: Ruling | None = None
    """The ruling of the moderation rules, which can change the status `after` again; None if they weren't asked."""

    @property
    def is_approved(self) -> bool:
        """True if a rule approves the review after the edit."""
        return self.ruling is not None and self.ruling.approval is not None and self.after is ReviewStatus.NEW


@dataclass(frozen=True, slots=True)
class EditedReviews:
    """The result of a batch of edits: the written reviews by id, one result for each edit, and changes of tallies."""

    reviews: Mapping[str, Review]
    results: Sequence[Edited]
    tallies: Mapping[TallyKey, RatingTally]


def right_to_edit(caller: Caller, user_id: str | None, author: str | None) -> EditRight | None:
    """The right of a caller, who names this user, to edit a review of this author.

    Without authentication everything is allowed: a caller who names a user counts as the author.
    """
    if caller.subject is None:
        return EditRight.AUTHOR if user_id is not None else EditRight.MODERATOR
    if caller.subject != author and caller.may(Permission.MODERATE_REVIEWS):
        return EditRight.MODERATOR
    speaks_for = user_id == author and caller.may(Permission.CREATE_REVIEWS_FOR_OTHERS)
    if caller.may(Permission.CREATE_REVIEWS) and (caller.subject == author or speaks_for):
        return EditRight.AUTHOR
    return None


def is_same_review(target: ReviewIdentity, stored: ReviewIdentity, right: EditRight | None) -> bool:
    """True if the identity that a submission names fits the stored one. The store may be omitted, and by moderators the
    author."""
    is_author = target.user_id == stored.user_id or (target.user_id is None and right is EditRight.MODERATOR)
    return target.entity == stored.entity and target.store_id in (None, stored.store_id) and is_author


def message_digest(identity: str | None, content: Content) -> int:
    """The digest of a message, 63 bits: of its CloudEvents identity, else of its content."""
    # Stored digests of contents without images don't cover that field.
    digested = repr(tuple(content[:-1] if content.images is None else content)) if identity is None else identity
    return content_digest(digested)


def edit_reviews(
    edits: Iterable[Edit],
    reviews: Mapping[str, Review],
    answered: Collection[tuple[str, str]] = (),
    keeping_status: Collection[str] = (),
    judge: Judge = lambda *_: None,
    languages: Languages = NO_LANGUAGES,
    images: ClaimableImages | None = None,
) -> EditedReviews:
    """Apply edits in order; moderation rules judge the edits of authors.

    `reviews` holds the current states by id; a missing review has been deleted. `answered` holds pairs of command id
    and review id that have an outcome: a command never edits twice. `keeping_status` are the stores in which an
    author's edit leaves the status unchanged. `languages` holds the languages of reviews whose text changes, and
    `images` the images that edits name, None if they name none.
    """
    present, repeats = dict(reviews), set(answered)
    touched: dict[str, Review] = {}
    results: list[Edited] = []
    tallies: dict[TallyKey, RatingTally] = {}
    for each in edits:
        review = present.get(each.review_id)
        if each.answer_key in repeats:
            results.append(Edited(Outcome.UNCHANGED, is_repeat=True))
            continue
        if review is None:
            results.append(Edited(Outcome.REFUSED, Refusal.ID_TAKEN))
            continue
        if each.answer_key:
            repeats.add(each.answer_key)
        keeps_status = review.identity.store_id in keeping_status
        own = _images_of(each, review, images) if images and each.content.images else NO_IMAGES
        after, result = apply_edit(review, each, own, keeps_status=keeps_status, judge=judge, languages=languages)
        results.append(result)
        if after is review:
            continue
        had, has = set(review.content.images or ()), set(after.content.images or ())
        if images and had != has:
            # As across batches: an image that a review has dropped is gone, so that it can't come back unhidden.
            images = images.claimed(has - had, each.review_id).dropped(had - has)
        present[each.review_id] = touched[each.review_id] = after
        change = counted(after.status, after.rating) - counted(review.status, review.rating)
        if change != RatingTally():
            add_change(tallies, review.identity.key, change)
    return EditedReviews(touched, results, tallies)


def _images_of(edit: Edit, review: Review, images: ClaimableImages) -> EditImages:
    """The readiness of the images that an edit names, and the objection to them."""
    named = edit.content.images or ()
    # The later of two clocks: an approval sent before the edit must not cover its images.
    effective = max(images.at, from_milliseconds(edit.position.timestamp))
    objection = images.refusal(named, edit.review_id, review.identity.user_id)
    ready = ready_among({id: image for id in named if (image := images.stored.get(id))})
    return EditImages(objection, ready, effective)


def apply_edit(
    review: Review,
    wanted: Edit,
    named: EditImages = NO_IMAGES,
    *,
    keeps_status: bool,
    judge: Judge = lambda *_: None,
    languages: Languages = NO_LANGUAGES,
) -> tuple[Review, Edited]:
    """Apply one edit; returns the review after it, the same object if nothing has to be written.

    An older record, or a message that has written the review before, changes nothing. An author's edit makes the review
    New if the store doesn't keep the status, or if a rule holds it; if it stays Approved, the images that it gains are
    hidden. A moderator's edit leaves the status, and its images are shown. After a rejection, no rule approves the
    edited review.
    """
    if not wanted.may_touch(review.identity):
        return review, Edited(Outcome.REFUSED, Refusal.ID_TAKEN)
    known = review.written.messages
    if review.written.covers(wanted.position) or wanted.message in known or wanted.record in known:
        return review, Edited(Outcome.UNCHANGED, is_repeat=True)
    stored = review.content
    content = merged(stored, wanted.content, review.images if wanted.keeps_pending else ())
    fields = tuple(name for name, old, new in zip(CONTENT_FIELDS, stored, content, strict=True) if old != new)
    if wanted.right is None:
        # A part that changes nothing would confirm a guess. The facade refuses it, too, if it can look up the review.
        is_whole = None not in (wanted.content.text, wanted.content.rating)
        is_same = is_whole and not fields
        return review, Edited(Outcome.UNCHANGED) if is_same else Edited(Outcome.REFUSED, Refusal.ID_TAKEN)
    refusal = (wanted.refusal if wanted.right is EditRight.AUTHOR else None) or named.refusal
    if fields and refusal:
        # The record alone: a redelivery isn't accepted once the rules allow it, but the message is if it is sent again.
        written = review.written.after_refusal(wanted.position, wanted.record)
        return replace(review, written=written), Edited(Outcome.REFUSED, refusal)
    written = review.written.after(wanted.position, wanted.message)
    if not fields:
        # Recorded, so that a redelivery of this message can't overwrite later edits.
        return replace(review, written=written), Edited(Outcome.UNCHANGED)
    images = images_after_edit(content.images or (), review.images, named.ready, named.effective)
    facts = review.facts._replace(language=languages.get(wanted.review_id, review.facts.language))
    changes = content._asdict() | {"images": images}
    edited = replace(review, **changes, facts=facts, written=written, modified=wanted.at)
    if wanted.right is not EditRight.AUTHOR:
        return edited, Edited(Outcome.APPLIED, None, fields, review.status, edited.status)
    ruling = judge(wanted.review_id, edited)
    after = _unless_kept(review, edited, is_held=ruling is not None and ruling.is_held, keeps_status=keeps_status)
    whole = _with_history(ruling or NO_RULING, review, after)
    result = Edited(Outcome.APPLIED, None, fields, review.status, after.status, ruling=ruling and whole)
    return with_ruling(after, whole), result


def _unless_kept(before: Review, edited: Review, *, is_held: bool, keeps_status: bool) -> Review:
    """A review that its author has edited: New, unless the store keeps the status and no rule holds it. If it stays
    Approved, the images that it gained are hidden."""
    was_approved = before.status is ReviewStatus.APPROVED
    if before.status is not ReviewStatus.NEW and (not keeps_status or (is_held and was_approved)):
        return replace(edited, status=ReviewStatus.NEW, moderator=None, moderation_reason=None, reason_code=None)
    return replace(edited, images=with_new_hidden(edited.images, before.images)) if was_approved else edited


def _with_history(ruling: Ruling, before: Review, after: Review) -> Ruling:
    """The ruling about an edited review, with earlier objections: of classifiers if title and text are the same, and of
    a moderator who rejected it."""
    is_same_text = (after.title, after.text) == (before.title, before.text)
    verdicts = verdict_flags(before.flags) if is_same_text else ()
    was_rejected = after.status is ReviewStatus.NEW and before.was_rejected
    return replace(ruling, verdicts=verdicts, was_rejected=was_rejected)


def with_ruling(review: Review, ruling: Ruling) -> Review:
    """The review after a ruling: approved if it is New and a rule approves it. The ruling's flags replace all previous
    ones."""
    after = replace(review, flags=ruling.flags, is_held=ruling.is_held)
    if ruling.approval and review.status is ReviewStatus.NEW:
        after.status, after.moderator, after.moderation_reason = ReviewStatus.APPROVED, ruling.approval.subject, None
    return after


def needs_language_detection(before: Review, after: Review) -> bool:
    """True if the language of an edited review has to be detected again: its text changed, and no sender named one."""
    return not after.facts.is_language_given and (after.title, after.text) != (before.title, before.text)


def merged(stored: Content, given: Content, beside: Sequence[ReviewImage] = ()) -> Content:
    """The stored content with the fields of an edit; omitted ones stay, and so do the pending images of `beside`."""
    if beside and given.images is not None:
        given = given._replace(images=with_pending(given.images, beside))
    return stored._replace(**{name: new for name, new in given._asdict().items() if new is not None})
