"""Edits: a submission with the id of a stored review changes what its author wrote."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Final, NamedTuple

from domain.commands import CommandMark, Outcome
from domain.delivery import RecordPosition, Written
from domain.permissions import Caller, Permission
from domain.ratings import RatingTally, TallyKey
from domain.reviews import Content, ReviewIdentity, ReviewStatus, counted
from domain.stores import Refusal


class EditRight(StrEnum):
    """The right by which somebody edits a review: as its author, or as a moderator."""

    AUTHOR = "author"
    MODERATOR = "moderator"


_FIELDS: Final = ("review", "rating", "title", "userName", "entityName")
"""The names of the interface, in the order of Content."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A submission for a stored review. `target` is what it names of the review's identity.

    No right: its sender has none. `refusal` is what the store's rules have against it, which an author has to obey.
    `message` is the mark of its message, by which a message that is sent again is known.
    """

    review_id: str
    target: ReviewIdentity
    content: Content
    source: RecordPosition
    message: int
    at: datetime
    right: EditRight | None = EditRight.AUTHOR
    editor: str | None = None
    stores: Collection[str] | None = None
    refusal: Refusal | None = None
    command_id: str | None = None
    mark: CommandMark | None = None
    trace: str = ""

    @property
    def answer_key(self) -> tuple[str, str] | None:
        """The key of its stored outcome, if it has one."""
        return (self.command_id, self.review_id) if self.command_id else None

    def may_touch(self, identity: ReviewIdentity) -> bool:
        """True if its sender may edit the review with this identity."""
        in_store = self.stores is None or identity.store_id in self.stores
        return in_store and is_same_review(self.target, identity, self.right)


@dataclass(frozen=True, slots=True)
class EditableReview:
    """The part of a review that edits read and write. Its language is detected unless `is_language_given`."""

    identity: ReviewIdentity
    content: Content
    status: ReviewStatus
    written: Written
    modified: datetime
    moderator: str | None = None
    reason: str | None = None
    language: str | None = None
    is_language_given: bool = False


class Edited(NamedTuple):
    """The result of one edit: the names of the changed fields, and the status before and after."""

    outcome: Outcome
    reason: Refusal | None = None
    fields: tuple[str, ...] = ()
    before: ReviewStatus = ReviewStatus.NEW
    after: ReviewStatus = ReviewStatus.NEW
    is_repeat: bool = False


@dataclass(frozen=True, slots=True)
class EditedReviews:
    """The result of a batch of edits: the reviews that were written, one result for each edit, changes of tallies."""

    reviews: Mapping[str, EditableReview]
    results: Sequence[Edited]
    tallies: Mapping[TallyKey, RatingTally]


def right_to_edit(caller: Caller, user_id: str | None, author: str | None) -> EditRight | None:
    """The right of a caller, who names this user, to edit a review of this author.

    Without authentication everybody may everything: who names the author is the author.
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
    """True if a submission names nothing else than the stored review does; an author names the author, too."""
    is_author = target.user_id == stored.user_id or (target.user_id is None and right is EditRight.MODERATOR)
    return target.entity == stored.entity and target.store_id in (None, stored.store_id) and is_author


def message_mark(identity: str | None, content: Content) -> int:
    """The mark of a message: of its CloudEvents identity, else of what it says. 63 bits."""
    told = repr(tuple(content)) if identity is None else identity
    return int.from_bytes(blake2b(told.encode(errors="surrogatepass"), digest_size=8).digest()) >> 1


def edit_reviews(
    edits: Iterable[Edit],
    reviews: Mapping[str, EditableReview],
    answered: Collection[tuple[str, str]] = (),
    keeping_status: Collection[str] = (),
) -> EditedReviews:
    """Apply edits in their order.

    `reviews` are the present states by id; one that isn't among them is gone. `answered` holds the command ids and
    review ids that have an outcome: a command never edits twice. `keeping_status` are the stores in which an author's
    edit leaves the status as it is.
    """
    present, repeats = dict(reviews), set(answered)
    touched: dict[str, EditableReview] = {}
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
        after, result = edit(review, each, keeps_status=review.identity.store_id in keeping_status)
        results.append(result)
        if after is review:
            continue
        present[each.review_id] = touched[each.review_id] = after
        change = counted(after.status, after.content.rating) - counted(review.status, review.content.rating)
        if change != RatingTally():
            key = TallyKey(review.identity.entity, review.identity.store_id)
            tallies[key] = tallies.get(key, RatingTally()) + change
    return EditedReviews(touched, results, tallies)


def edit(review: EditableReview, edit: Edit, *, keeps_status: bool) -> tuple[EditableReview, Edited]:
    """Apply one edit: the review as it is then, the same object if nothing is to be written.

    An older record, or a message that wrote the review before, changes nothing. An author's edit makes the review New
    unless the store keeps the status; a moderator's leaves it.
    """
    if not edit.may_touch(review.identity):
        return review, Edited(Outcome.REFUSED, Refusal.ID_TAKEN)
    if review.written.covers(edit.source) or edit.message in review.written.messages:
        return review, Edited(Outcome.UNCHANGED, is_repeat=True)
    content = merged(review.content, edit.content)
    fields = tuple(name for name, old, new in zip(_FIELDS, review.content, content, strict=True) if old != new)
    if not fields:
        return review, Edited(Outcome.UNCHANGED)
    if edit.right is None:
        return review, Edited(Outcome.REFUSED, Refusal.ID_TAKEN)
    written = review.written.after(edit.source, edit.message)
    if edit.right is EditRight.AUTHOR and edit.refusal:
        # Taken into account, so that a redelivery isn't taken once the store allows it.
        return replace(review, written=written), Edited(Outcome.REFUSED, edit.refusal)
    after = replace(review, content=content, written=written, modified=edit.at)
    if edit.right is EditRight.AUTHOR and not keeps_status and review.status is not ReviewStatus.NEW:
        after = replace(after, status=ReviewStatus.NEW, moderator=None, reason=None)
    return after, Edited(Outcome.APPLIED, None, fields, review.status, after.status)


def untold_language(before: EditableReview, after: EditableReview) -> bool:
    """True if the language of an edited review is to be detected anew: its words are others, and nobody gave it."""
    words = (before.content.title, before.content.review)
    return not after.is_language_given and (after.content.title, after.content.review) != words


def merged(stored: Content, given: Content) -> Content:
    """The content with what an edit gives; what it leaves out stays."""
    return stored._replace(**{name: new for name, new in given._asdict().items() if new is not None})
