"""Consume review submissions.

A batch is read and checked by the rules. For each free id one submission is stored; the decisions about the others are
in the table of `consumers.reviews_decisions`. Edits, events and answers follow.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain, repeat
from typing import Final

from consumers.languages import detect_languages
from consumers.moderation_rules import Ruled, count_rulings, rulings_about, with_ruling
from consumers.names_known import KnownNames
from consumers.parked_commands import ParkedCommands
from consumers.purchases import verify_submissions
from consumers.reviews_decisions import (
    ID_TAKEN,
    Decided,
    Decision,
    Inserted,
    SubmissionDecisions,
    count_decisions,
    decide_at,
    decide_beside,
    decision_of_edit,
    edits_beside,
    first_to_store,
    settled_entities,
    stored_before,
    undecided_part,
)
from consumers.reviews_edits import ReviewEditor
from consumers.reviews_events import SubmissionEvents
from consumers.reviews_rules import (
    BatchRules,
    StoredWith,
    decidable,
    insert_whole,
    release_tokens,
    replace_whole,
    rules_about,
    with_nothing_to_edit,
)
from consumers.reviews_submissions import Key, Submission, known_submissions
from consumers.services import Services
from domain.commands import Outcome
from domain.delivery import OutgoingMessage
from domain.ratings import Entity
from domain.reviews import Review
from domain.reviews_refusals import Refusal
from messaging.decoding import Received
from messaging.reviews import SubmittedReview
from messaging.tracing import cause_of
from storage.outcomes import ItemOutcome
from storage.review_tokens import UsedToken
from storage.reviews_ids import IdHolder, RefusedSubmission

_TURNS: Final = 4
"""Number of times that submissions wait for a review token: a flood with one token is refused at once after that."""


@dataclass(frozen=True, slots=True)
class SubmissionConsumer:
    """Stores submitted reviews, and passes edits of stored ones to `ReviewEditor`.

    Delivered at least once; a repeat changes nothing. An id that belongs to another review is refused with an event.
    Without an id from the sender, the id is derived from the CloudEvents identity, else from the content: the same
    message twice is one review. A submission that the store's rules don't allow is refused with an event, and accepted
    if it is sent again once they do. The event for a stored review is published at least once, with the same id after a
    redelivery.
    """

    services: Services
    parked: ParkedCommands
    names: KnownNames

    @property
    def _events(self) -> SubmissionEvents:
        return SubmissionEvents(self.services)

    async def __call__(self, batch: Sequence[Received[Sequence[SubmittedReview]]]) -> None:
        """Store a batch."""
        token_keys = await self.services.review_tokens.keys() if _has_tokens(batch) else ()
        waiting = await known_submissions(self.services, batch, token_keys)
        used: dict[Key, UsedToken] = {}
        # A submission that is refused in the end releases its token for the next one, a few times at most.
        for may_wait in (*repeat(True, _TURNS), False):
            if not waiting:
                break
            rules = await rules_about(self.services, waiting.values(), token_keys)
            rules = replace(rules, used={**used, **rules.used})
            submissions = await self._detected(decidable(waiting, rules.contested) if may_wait else waiting, rules)
            await self._apply(submissions, rules)
            waiting = {key: each for key, each in waiting.items() if key not in submissions}
            used = {key: each for key, each in rules.used.items() if key in waiting}

    async def _apply(self, submissions: Mapping[Key, Submission], rules: BatchRules) -> None:
        """Store reviews, apply edits, and tell everyone."""
        decisions = await self._store(submissions.values(), rules)
        stored = self._stored_events(submissions, decisions)
        if decisions.edits:
            # Edits take time, in which a stored review may be moderated: its first event precedes all others.
            await self.services.publisher.publish(stored)
            stored = []
        await self._events.publish_rivals(submissions, decisions.decided)
        await self._answer(submissions, {key: v for key, v in decisions.decided.items() if v == ID_TAKEN})
        edits = [submission.edit(decisions.rules.reasons.get(submission.key)) for submission in decisions.edits]
        edited = await ReviewEditor(self.services).apply(edits, rules.uploaded)
        decided = decisions.decided | {s.key: decision_of_edit(r) for s, r in zip(decisions.edits, edited, strict=True)}
        await release_tokens(self.services, rules, {key for key, v in decided.items() if v.reason})
        count_decisions(decided.values())
        await asyncio.gather(
            self._finish(submissions, decided),
            self._release_parked(stored, settled_entities(decided)),
        )

    async def _detected(self, submissions: Mapping[Key, Submission], rules: BatchRules) -> dict[Key, Submission]:
        """The submissions with what the rules and their texts tell about them."""
        wanted = [each for key, each in submissions.items() if key not in rules.reasons]
        languages = await detect_languages([each.language_sample for each in wanted])
        detected = {each.key: language for each, language in zip(wanted, languages, strict=True)}
        return {
            key: each._replace(
                object_name=rules.names.get(key),
                is_bought=key in rules.bought,
                is_proven=key in rules.proven,
                detected_language=detected.get(key),
            )
            for key, each in submissions.items()
        }

    async def _store(self, submissions: Iterable[Submission], rules: BatchRules) -> SubmissionDecisions:
        """Store reviews and refused submissions, and decide on each submission as if it had arrived alone."""
        decisions, waiting = SubmissionDecisions(rules), dict[str, list[Submission]]()
        for submission in submissions:
            waiting.setdefault(submission.id, []).append(submission)
        while waiting:
            # A submission that lost a unique key leaves its edits nothing to edit.
            orphans = with_nothing_to_edit(chain(*waiting.values()), decisions.rules.reasons)
            decisions.refuse({each.key: Refusal.INCOMPLETE for each in orphans})
            firsts = {id: first_to_store(each, decisions.rules) for id, each in waiting.items()}
            edits = {edit.key for each in waiting.values() for edit in edits_beside(each, decisions.rules)}
            # Published before anything is stored: a stored refusal is not published again.
            await self._events.publish_undecided(decisions.unpublished(chain(*waiting.values()), edits))
            inserted = await self._insert(firsts.values(), decisions.rules)
            decisions.reviews |= inserted.reviews
            decisions.refuse(inserted.lost, is_published=True)
            for id in firsts.keys() - inserted.taken:
                of_id = waiting.pop(id)
                decisions.decide(
                    (s, None if s.key in edits else decide_beside(s, firsts[id], decisions.rules, inserted))
                    for s in of_id
                )
            for id, holder in (await self.services.reviews.holders(inserted.taken)).items():
                decided = await self._decide(waiting[id], holder, decisions.rules, edits - decisions.published)
                decisions.decide(decided.decisions)
                decisions.refuse(decided.lost, is_published=True)
                if decided.is_complete:
                    del waiting[id]
        return decisions

    async def _insert(self, firsts: Iterable[Submission], rules: BatchRules) -> Inserted:
        """Store new submissions."""
        accepted: dict[str, Submission] = {}
        refused: list[RefusedSubmission] = []
        for submission in firsts:
            if reason := rules.reasons.get(submission.key):
                refused.append(submission.refused(reason))
            else:
                accepted[submission.id] = submission
        reviews, ruled = await self._judge(accepted, rules)
        unruled = {accepted[id].key: review for id, review in reviews.items() if id not in ruled}
        keys = {id: rules.unique_keys[s.key] for id, s in accepted.items() if s.key in rules.unique_keys}
        whole = keys.keys() | ruled.keys() | {id for id, review in reviews.items() if review.images}
        taken = await self.services.reviews.insert([r for id, r in reviews.items() if id not in whole], refused)
        if not whole:
            return Inserted(taken, unruled)
        attached = StoredWith(keys, ruled, rules.uploaded)
        insert = partial(insert_whole, self.services, [reviews[id] for id in accepted if id in whole], attached)
        taken_too, lost = await self.services.transactions.run(insert)
        announced = ruled.keys() - taken_too - lost.keys()
        count_rulings(ruled[id].ruling for id in announced)
        await self._events.publish_refusals((accepted[id], reason) for id, reason in lost.items())
        refusals = {accepted[id].key: reason for id, reason in lost.items()}
        return Inserted(taken | taken_too | lost.keys(), unruled, announced, refusals)

    async def _judge(
        self, accepted: Mapping[str, Submission], rules: BatchRules
    ) -> tuple[dict[str, Review], dict[str, Ruled]]:
        """The reviews of submissions by id, with moderation rules applied, and those for which a rule fired."""
        reviews = {id: self.names.named(submission.accepted()) for id, submission in accepted.items()}
        ruled = {}
        for id, ruling in (await rulings_about(self.services, reviews.values(), rules.stores)).items():
            submission = accepted[id]
            review = reviews[id] = with_ruling(reviews[id], ruling)
            event = self._events.submitted(submission, review)
            trace = cause_of(submission.positions[0])
            ruled[id] = Ruled(review, ruling, event, submission.review.command_id, trace)
        return reviews, ruled

    async def _decide(
        self, of_one_id: Sequence[Submission], holder: IdHolder, rules: BatchRules, edits: Collection[Key]
    ) -> Decided:
        """Decide on the submissions of a taken id, until its holder turns out to have changed meanwhile. Refusals by
        the rules are published already, except those of `edits`.

        A submission that was refused before is decided anew, unless it has only the refused records, or repeats a
        command that was answered with that refusal.
        """
        keys = [each.answer_key for each in of_one_id if each.review.command_id] if holder.refused else []
        answered = await self.services.outcomes.answers(keys)
        decisions: list[tuple[Submission, Decision | None]] = []
        lost: dict[Key, Refusal] = {}
        for submission in of_one_id:
            if holder.refused is None:
                decision = decide_at(submission, holder)
                # Of several submissions with the same time the first one was stored.
                is_stored = decision is not None and decision.is_stored
                holder = replace(holder, is_announced=holder.is_announced or is_stored)
            elif (fresh := undecided_part(submission, holder)) is None:
                decision = Decision(Outcome.REFUSED, holder.refused.reason, is_repeat=True)
            else:
                is_answered = submission.answer_key in answered
                reason = holder.refused.reason if is_answered else rules.reasons.get(fresh.key)
                if reason and fresh.key in edits and not is_answered:
                    # The submission that it follows has been refused before.
                    await self._events.publish_refusals([(fresh, reason)])
                if reason is None and fresh.is_incomplete:
                    # So has the complete one that it follows.
                    reason = lost[fresh.key] = Refusal.INCOMPLETE
                    await self._events.publish_refusals([(fresh, reason)])
                after = fresh.refused(reason, holder.refused.seen) if reason else None
                replaced = await self._replace(holder.refused, after, fresh, rules)
                if not isinstance(replaced, Decision):
                    return Decided(decisions, lost | ({fresh.key: replaced} if replaced else {}), is_complete=False)
                decision, holder = replaced, fresh.holder(after)
            decisions.append((submission, decision))
        return Decided(decisions, lost)

    async def _replace(
        self, before: RefusedSubmission, after: RefusedSubmission | None, fresh: Submission, rules: BatchRules
    ) -> Decision | Refusal | None:
        """Replace a refused submission by a later refusal, or else by the review with all that belongs to it. Returns
        the decision; a refusal if another review has its unique key or image; None if the submission has changed
        meanwhile."""
        if after:
            is_done = await self.services.reviews.replace_refused(before, after)
            return Decision(Outcome.REFUSED, after.reason, is_repeat=True) if is_done else None
        reviews, ruled = await self._judge({fresh.id: fresh}, rules)
        review, lost = reviews[fresh.id], None
        keys = {fresh.id: rules.unique_keys[fresh.key]} if fresh.key in rules.unique_keys else {}
        if not (keys or ruled or review.images):
            is_done = await self.services.reviews.replace_refused(before, review)
        else:
            attached = StoredWith(keys, ruled, rules.uploaded)
            swap = partial(replace_whole, self.services, before, review, attached)
            is_done, lost = await self.services.transactions.run(swap)
        if is_done:
            count_rulings(each.ruling for each in ruled.values())
            return stored_before(fresh.created, is_announced=bool(ruled))
        await self._events.publish_refusals([(fresh, lost)] if lost else [])
        return lost

    def _stored_events(
        self, submissions: Mapping[Key, Submission], decisions: SubmissionDecisions
    ) -> list[OutgoingMessage]:
        """The events for stored reviews that may still have to be published."""
        events = []
        for key in decisions.unannounced():
            created = decisions.decided[key].created
            review = None if created else decisions.reviews.get(key)
            events.append(self._events.submitted(submissions[key].without_earlier_records(created), review))
        return events

    async def _release_parked(self, stored: Sequence[OutgoingMessage], settled: Mapping[str, Entity]) -> None:
        """Publish that reviews were stored, then release the commands parked for the reviews that have the ids."""
        await self.services.publisher.publish(stored)
        # Store first, then look for parked commands: the router parks first, then looks up, so one sees the other.
        await self.parked.release(settled)

    async def _finish(self, submissions: Mapping[Key, Submission], decided: Mapping[Key, Decision]) -> None:
        """Mark stored reviews that purchases verify, then store the answers that clients wait for."""
        await verify_submissions(self.services.purchases, [(submissions[key], v) for key, v in decided.items()])
        await self._answer(submissions, decided)

    async def _answer(self, submissions: Mapping[Key, Submission], decided: Mapping[Key, Decision]) -> None:
        answers = [
            ItemOutcome(*submission.answer_key, v.outcome, v.refusal and v.refusal.value, submission.mark)
            for submission, v in ((submissions[key], v) for key, v in decided.items() if not v.is_edit)
            if submission.review.command_id
        ]
        await self.services.outcomes.remember(answers, datetime.now(UTC))


def _has_tokens(batch: Iterable[Received[Sequence[SubmittedReview]]]) -> bool:
    return any(review.token for _, reviews in batch for review in reviews)
