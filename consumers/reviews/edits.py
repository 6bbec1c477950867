"""Edit stored reviews, and update their ratings in the same transaction."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Final

from consumers.images.claims import claimable_images, save_images
from consumers.languages import detect_languages
from consumers.moderation_rules import (
    approval_event,
    compiled_rules,
    count_rulings,
    languages_of_strangers,
    planned_approval,
    ruling_audit_entries,
)
from consumers.ratings import change_ratings
from consumers.services import Services
from domain.commands import Outcome
from domain.delivery import OutgoingMessage, Seen, in_parts
from domain.languages import detectable
from domain.moderation_rules import RuleSet, Ruling, is_duplicate, rule_input, text_keys
from domain.places import entity_key
from domain.planned_approvals import PlannedApproval
from domain.reviews import Review, ReviewStatus
from domain.reviews_edits import Edit, Edited, EditedReviews, EditRight, Judge, edit_reviews, needs_language_detection
from domain.reviews_refusals import Refusal
from domain.stores import Store
from messaging.events import review_edited, submission_refused
from storage.audit import AuditAction, AuditEntry
from storage.review_tokens import UsedToken
from storage.unit_of_work import UnitOfWork

_AT_ONCE: Final = 200_000
"""Maximum number of characters edited in one transaction, some seconds at worst; 1,000 usual reviews have fewer."""


@dataclass(frozen=True, slots=True)
class ReviewEditor:
    """Applies edits, keeps the ratings in step, and logs who changed which fields.

    Called at least once, effective once: each review stores the record and the messages by which it was written.
    Edits are split into parts that are judged quickly; contents, tallies, audit entries, answers and events of a part
    are written in one transaction.
    """

    services: Services

    async def apply(self, edits: Sequence[Edit], uploaded: Collection[str] = ()) -> Sequence[Edited]:
        """Apply edits in order; returns a result for each. `uploaded`: ids of images that are not rebuilt yet."""
        if not edits:
            return ()
        stores = await self._stores({edit.review_id for edit in edits})
        # Outside of the transaction: an idle transaction is aborted before the time that this may take.
        rules = await compiled_rules(stores.values())
        results = list[Edited]()
        omitting = {edit.review_id for edit in edits if edit.content.text is None}
        lengths = await self.services.review_edits.text_bytes(omitting) if omitting else {}
        # Parts are judged long before an idle transaction is aborted. A redelivered edit is recognised in any part.
        for part in in_parts(_with_lengths(edits, lengths), _AT_ONCE, itemgetter(1)):
            edit_part = partial(self._edit, [edit for edit, _ in part], uploaded, stores, rules)
            results += (await self.services.transactions.run(edit_part)).results
        count_rulings(result.ruling for result in results if result.ruling)
        return results

    async def _edit(
        self,
        edits: Sequence[Edit],
        uploaded: Collection[str],
        stores: Mapping[str, Store],
        rules: Mapping[str | None, RuleSet],
        work: UnitOfWork,
    ) -> EditedReviews:
        reviews, outcomes = work.repositories.review_edits, work.repositories.outcomes
        edits = await _without_used_tokens(edits, work)
        present = await reviews.load({edit.review_id for edit in edits}, work.session)
        named = {id for edit in edits for id in edit.content.images or ()}
        images = await claimable_images(named, uploaded, await work.now(), work) if named else None
        answered = await outcomes.answers([edit.answer_key for edit in edits if edit.answer_key], work.session)
        keeping = {id for id, store in stores.items() if store.settings.edits_keep_status}
        # The reviews with their new texts, before rules and languages are applied: both depend on the texts of the
        # edits that count, and only a first pass finds these.
        drafts = edit_reviews(edits, present, answered, keeping, images=images).reviews
        languages = await _languages(present, drafts)
        judge = await self._judge(edits, present, rules, drafts)
        editing = partial(edit_reviews, edits, present, answered, keeping, judge, languages, images)
        # Rules may take long, and heartbeats to Kafka must not wait for them.
        edited = await asyncio.to_thread(editing) if rules else editing()
        await reviews.save(edited.reviews, work.session)
        await save_images(present, edited.reviews, work)
        results = list(zip(edits, edited.results, strict=True))
        await _use_tokens(results, work)
        applied = [(edit, edited.reviews[edit.review_id], r) for edit, r in results if r.outcome is Outcome.APPLIED]
        # The event for an approval by a rule follows that for its edit, and precedes that for the next one.
        for edit, review, result in applied:
            work.emit([self._edited_event(edit, review, result)])
            work.audit([_audit_entry(edit, review, result)])
            self._emit_ruling(edit, review, result, work)
        await change_ratings(self.services, work, edited.tallies, [present[id] for id in edited.reviews])
        renamed = {review.entity for _, review, result in applied if _may_rename(result)}
        await work.repositories.rated_objects.forget_names(renamed, work.session)
        refused = [(edit, result.reason) for edit, result in results if result.reason]
        work.emit(self._refusal_event(*each) for each in await _decided_now(refused, present, work))
        await work.repositories.planned_approvals.plan(dict(_plans(applied, present)), work.session)
        for edit, result in results:
            reason = result.reason and result.reason.value
            work.answer(edit.command_id, edit.review_id, result.outcome, reason, mark=edit.mark)
        return edited

    async def _stores(self, review_ids: Collection[str]) -> dict[str, Store]:
        """The stores of these stored reviews, by id. Valid in the transaction, too: no review changes its store."""
        identities = [holder.identity for holder in (await self.services.reviews.holders(review_ids)).values()]
        return await self.services.stores.of_ids({each.store_id for each in identities if each and each.store_id})

    async def _judge(
        self,
        edits: Iterable[Edit],
        present: Mapping[str, Review],
        rules: Mapping[str | None, RuleSet],
        drafts: Mapping[str, Review],
    ) -> Judge:
        """A judge by the rules of the stores, with the texts of other reviews and the languages of these."""
        keys = await asyncio.to_thread(_duplicate_keys, edits, present, rules) if rules else {}
        # Outside of the transaction: a noted text counts only once its review has it.
        holders = await self.services.texts.holders((id, each) for (id, _), each in keys.items())
        languages = await languages_of_strangers(
            (id, draft, rules.get(draft.identity.store_id)) for id, draft in drafts.items()
        )

        def judge(id: str, review: Review) -> Ruling | None:
            store_rules = rules.get(review.identity.store_id)
            if store_rules is None:
                return None
            of_text = keys.get((id, review.text), ())
            about = rule_input(review, is_duplicate=is_duplicate(id, of_text, holders))
            return store_rules.judge(about._replace(language=languages.get(id, about.language)))

        return judge

    def _emit_ruling(self, edit: Edit, review: Review, edited: Edited, work: UnitOfWork) -> None:
        """Emit the events and audit entries of a ruling about an edited review."""
        key, ruling = review.identity.key, edited.ruling
        if ruling is None:
            return
        if edited.is_approved and ruling.approval:
            work.emit(
                [approval_event(self.services, edit.review_id, key, ruling.approval.subject, edit.at, edit.trace)]
            )
        if edited.is_approved or ruling.objections:
            work.audit(ruling_audit_entries(ruling, edit.review_id, key, edit.at, edit.command_id))

    def _edited_event(self, edit: Edit, review: Review, edited: Edited) -> OutgoingMessage:
        data = review_edited(edit, review.identity.key, edited)
        return self.services.event(entity_key(review.identity.entity), "ReviewEdited", data, cause=edit.trace)

    def _refusal_event(self, edit: Edit, reason: Refusal) -> OutgoingMessage:
        data = submission_refused(edit.review_id, edit.target.key, reason, edit.at)
        return self.services.event(entity_key(edit.target.entity), "SubmissionRefused", data, cause=edit.trace)


def _with_lengths(edits: Iterable[Edit], stored: Mapping[str, int]) -> Iterator[tuple[Edit, int]]:
    """Edits with the lengths of title and text. `stored` has the lengths of the texts that they omit, by review id."""
    lengths = dict(stored)
    for edit in edits:
        if edit.content.text is not None:
            lengths[edit.review_id] = len(edit.content.text)
        yield edit, lengths.get(edit.review_id, 0) + len(edit.content.title or "")


def _duplicate_keys(
    edits: Iterable[Edit], present: Mapping[str, Review], rules: Mapping[str | None, RuleSet]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """The text keys of authors' edits in stores that look for duplicates, by review id and text."""
    keys = {}
    for edit in edits:
        review = present.get(edit.review_id)
        store_rules = rules.get(review.identity.store_id) if review else None
        if review and store_rules and store_rules.looks_for_duplicates and edit.right is EditRight.AUTHOR:
            text = review.text if edit.content.text is None else edit.content.text
            keys[edit.review_id, text] = text_keys(review.identity, text)
    return keys


async def _without_used_tokens(edits: Sequence[Edit], work: UnitOfWork) -> Sequence[Edit]:
    """The edits, with refusals of those whose token another review has used, or an earlier edit of another one uses."""
    lines = {edit.token.line for edit in edits if edit.token}
    users = await work.repositories.review_tokens.used(lines, work.session)
    return [
        replace(edit, refusal=Refusal.USED_PROOF)
        if edit.token and users.setdefault(edit.token.line, edit.review_id) != edit.review_id
        else edit
        for edit in edits
    ]


async def _use_tokens(results: Iterable[tuple[Edit, Edited]], work: UnitOfWork) -> None:
    """Use up the tokens of edits that weren't refused, and verify their reviews by these."""
    repositories = work.repositories
    used = [
        UsedToken(edit.token, edit.review_id)
        for edit, result in results
        if edit.token and not result.reason and not result.is_repeat
    ]
    await repositories.review_tokens.use(used, work.session)
    await repositories.purchases.verify_for_good({each.review_id for each in used}, work.session)


async def _decided_now(
    refused: Collection[tuple[Edit, Refusal]], present: Collection[str], work: UnitOfWork
) -> list[tuple[Edit, Refusal]]:
    """The refusals, without those of edits that another worker decided before their review was deleted, while this one
    was frozen."""
    deleted = {edit.review_id for edit, _ in refused}.difference(present)
    holders = await work.repositories.reviews.holders(deleted, work.session)
    seen = {id: Seen().after(each.written.position) for id, each in holders.items() if each.written}
    return [each for each in refused if not seen.get(each[0].review_id, Seen()).covers(each[0].position)]


async def _languages(before: Mapping[str, Review], edited: Mapping[str, Review]) -> dict[str, str | None]:
    """The languages of edited reviews whose texts have changed, by id; None if they can't be detected."""
    undetected = {id: review for id, review in edited.items() if needs_language_detection(before[id], review)}
    samples = [detectable(review.title, review.text) for review in undetected.values()]
    return dict(zip(undetected, await detect_languages(samples), strict=True))


def _plans(
    applied: Iterable[tuple[Edit, Review, Edited]], before: Mapping[str, Review]
) -> Iterator[tuple[str, PlannedApproval | None]]:
    """The planned approvals after these edits, by review id; None cancels one. An author's edit cancels it even if the
    store no longer has rules, as nobody has seen the new text; a moderator's edit keeps it."""
    for edit, _, result in applied:
        if result.ruling is not None:
            yield edit.review_id, planned_approval(edit.review_id, result.ruling, edit.at)
        elif edit.right is EditRight.AUTHOR and before[edit.review_id].may_be_planned:
            yield edit.review_id, None


def _may_rename(result: Edited) -> bool:
    """True if an edit may change the name of its object, which comes from approved reviews."""
    is_unapproved = result.before is ReviewStatus.APPROVED and result.after is not ReviewStatus.APPROVED
    return "entityName" in result.fields or is_unapproved


def _audit_entry(edit: Edit, review: Review, edited: Edited) -> AuditEntry:
    author = review.identity.user_id if edit.right is EditRight.AUTHOR else None
    entry = AuditEntry(
        edit.at, edit.editor or author, AuditAction.EDIT, command_id=edit.command_id, fields=edited.fields
    )
    return entry.about(edit.review_id, review.identity.key)
