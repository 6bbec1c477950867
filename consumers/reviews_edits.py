"""Edit stored reviews: the ratings follow, in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from consumers.languages import detect_languages
from consumers.ratings import rating_events
from consumers.services import Services
from domain.commands import Outcome
from domain.delivery import OutgoingMessage
from domain.languages import detectable
from domain.ratings import TallyKey
from domain.reviews_edits import (
    Edit,
    EditableReview,
    Edited,
    EditedReviews,
    EditRight,
    edit_reviews,
    untold_language,
)
from domain.stores import Refusal
from messaging.events import review_edited, submission_refused
from messaging.reviews import entity_key
from storage.audit import AuditEntry, Editing
from storage.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class ReviewEditor:
    """Applies edits, keeps the ratings in step, and logs who changed which fields.

    Called at least once, effective once: each review knows the record and the messages that it was written by.
    Contents, tallies, audit entries, answers and events of a batch are one transaction.
    """

    services: Services

    async def apply(self, edits: Sequence[Edit]) -> Sequence[Edited]:
        """Apply edits in their order; returns a result for each."""
        if not edits:
            return ()
        return (await self.services.transactions.run(partial(self._edit, edits))).results

    async def _edit(self, edits: Sequence[Edit], work: UnitOfWork) -> EditedReviews:
        reviews, ratings, outcomes = (
            work.repositories.review_edits,
            work.repositories.ratings,
            work.repositories.outcomes,
        )
        present = await reviews.load({edit.review_id for edit in edits}, work.session)
        answered = await outcomes.answers([edit.answer_key for edit in edits if edit.answer_key], work.session)
        edited = edit_reviews(edits, present, answered, await self._keeping_status(present.values()))
        edited = replace(edited, reviews=await _with_languages(edited.reviews, present))
        await reviews.save(edited.reviews, work.session)
        tallies = await ratings.add(edited.tallies, work.session)
        applied = list(_applied(edits, edited))
        work.emit(self._told(edit, review, result) for edit, review, result in applied)
        work.emit(rating_events(self.services, tallies))
        work.emit(self._refused(edit, reason) for edit, reason in _refused(edits, edited))
        work.audit(_audit_entry(edit, review, result) for edit, review, result in applied)
        for edit, result in zip(edits, edited.results, strict=True):
            reason = result.reason and result.reason.value
            work.answer(edit.command_id, edit.review_id, result.outcome, reason, mark=edit.mark)
        return edited

    async def _keeping_status(self, reviews: Collection[EditableReview]) -> set[str]:
        """The stores of these reviews in which an author's edit keeps the status."""
        stores = {review.identity.store_id for review in reviews if review.identity.store_id is not None}
        found = await self.services.stores.of_ids(stores)
        return {id for id, store in found.items() if store.settings.edits_keep_status}

    def _told(self, edit: Edit, review: EditableReview, edited: Edited) -> OutgoingMessage:
        key = TallyKey(review.identity.entity, review.identity.store_id)
        told = review_edited(edit, key, edited)
        return self.services.event(entity_key(key.entity), "ReviewEdited", told, cause=edit.trace)

    def _refused(self, edit: Edit, reason: Refusal) -> OutgoingMessage:
        key = TallyKey(edit.target.entity, edit.target.store_id)
        told = submission_refused(edit.review_id, key, reason)
        return self.services.event(entity_key(key.entity), "SubmissionRefused", told, cause=edit.trace)


async def _with_languages(
    edited: Mapping[str, EditableReview], before: Mapping[str, EditableReview]
) -> Mapping[str, EditableReview]:
    """Edited reviews with the languages that they have now."""
    untold = {id: review for id, review in edited.items() if untold_language(before[id], review)}
    samples = [detectable(review.content.title, review.content.review) for review in untold.values()]
    languages = dict(zip(untold, await detect_languages(samples), strict=True))
    return {id: replace(each, language=languages.get(id, each.language)) for id, each in edited.items()}


def _applied(edits: Iterable[Edit], edited: EditedReviews) -> Iterator[tuple[Edit, EditableReview, Edited]]:
    for edit, result in zip(edits, edited.results, strict=True):
        if result.outcome is Outcome.APPLIED:
            yield edit, edited.reviews[edit.review_id], result


def _refused(edits: Iterable[Edit], edited: EditedReviews) -> Iterator[tuple[Edit, Refusal]]:
    for edit, result in zip(edits, edited.results, strict=True):
        if result.reason:
            yield edit, result.reason


def _audit_entry(edit: Edit, review: EditableReview, edited: Edited) -> AuditEntry:
    author = review.identity.user_id if edit.right is EditRight.AUTHOR else None
    return AuditEntry(
        at=edit.at,
        subject=edit.editor or author,
        action=Editing.EDIT,
        review_id=edit.review_id,
        entity=review.identity.entity,
        store_id=review.identity.store_id,
        reason=None,
        command_id=edit.command_id,
        fields=edited.fields,
    )
