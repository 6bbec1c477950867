"""Consume review submissions.

A batch is read and checked by the rules. For each free id one submission is stored; the decisions about the others are
in the table of `consumers.reviews_decisions`. Edits, events and answers follow.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Final

from uuid_utils import UUID, uuid5

from consumers.languages import detect_languages
from consumers.moderation_rules import Ruled, apply_ruling, rulings_about
from consumers.names_known import KnownNames
from consumers.parked import ParkedCommands
from consumers.purchases import verify_submissions
from consumers.reviews_decisions import (
    SubmissionDecisions,
    count_decisions,
    decide_beside,
    decision_of_edit,
    settled_entities,
)
from consumers.reviews_edits import ReviewEditor
from consumers.reviews_rules import BatchRules, StoredWith, insert_whole, release_tokens, replace_whole, rules_about
from consumers.reviews_submissions import Decision, Key, Submission, known_submissions, stored_before
from consumers.services import Services
from domain.commands import Outcome
from domain.delivery import OutgoingMessage
from domain.places import entity_key
from domain.ratings import Entity
from domain.reviews import Review
from domain.reviews_refusals import Refusal
from messaging.decoding import Received
from messaging.events import review_submitted, submission_refused
from messaging.reviews import SubmittedReview
from messaging.tracing import cause_of
from storage.outcomes import Answer
from storage.reviews_ids import IdHolder, RefusedSubmission

_EVENTS: Final = UUID("a8c1d0c7-7a0b-5f0e-8a54-0f5b7a1e2c33")


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

    async def __call__(self, batch: Sequence[Received[Sequence[SubmittedReview]]]) -> None:
        """Store a batch."""
        submissions, rules = await self._read(batch)
        # The rules may have changed since a record was decided: no event may say that a stored review is refused.
        holders = await self.services.reviews.holders({key.id for key in rules.reasons})
        # Published before anything is stored: a stored refusal is not published again.
        await self._publish_refusals(
            (submissions[k].undecided_part(holders.get(k.id)), why) for k, why in rules.reasons.items()
        )
        decisions = await self._store(submissions.values(), SubmissionDecisions(rules))
        # The event for a stored review precedes those for its edits.
        await self._publish_stored(submissions, decisions, of={each.id for each in decisions.edits})
        edits = [submission.edit(decisions.reason(submission)) for submission in decisions.edits]
        edited = await ReviewEditor(self.services).apply(edits, rules.uploaded)
        decided = decisions.decided | {s.key: decision_of_edit(r) for s, r in zip(decisions.edits, edited, strict=True)}
        await release_tokens(self.services, rules, {key for key, v in decided.items() if v.reason})
        await self._publish_rivals(submissions, decided)
        count_decisions(decided.values())
        await asyncio.gather(
            self._finish(submissions, decided),
            self._release_parked(submissions, decisions, settled_entities(decided)),
        )

    async def _read(
        self, batch: Sequence[Received[Sequence[SubmittedReview]]]
    ) -> tuple[dict[Key, Submission], BatchRules]:
        """The submissions of a batch, and the refusals and data that the rules give."""
        token_keys = await self.services.review_tokens.keys() if _has_tokens(batch) else ()
        submissions = await known_submissions(
            batch, token_keys, self.services.reviews, has_places=self.services.publisher.has_places
        )
        rules = await rules_about(self.services, submissions.values(), token_keys)
        wanted = [each for key, each in submissions.items() if key not in rules.reasons]
        languages = await detect_languages([each.language_sample for each in wanted])
        detected = {each.key: language for each, language in zip(wanted, languages, strict=True)}
        ruled = {
            key: each._replace(
                object_name=rules.names.get(key),
                is_bought=key in rules.bought,
                is_proven=key in rules.proven,
                detected_language=detected.get(key),
            )
            for key, each in submissions.items()
        }
        return ruled, rules

    async def _store(self, submissions: Iterable[Submission], decisions: SubmissionDecisions) -> SubmissionDecisions:
        """Store reviews and refused submissions, and decide on each submission as if it had arrived alone."""
        waiting: dict[str, list[Submission]] = {}
        for submission in submissions:
            waiting.setdefault(submission.id, []).append(submission)
        while waiting:
            # A submission that lost a claim leaves its edits nothing to edit.
            await self._refuse(decisions.with_nothing_to_edit(chain(*waiting.values())), decisions)
            firsts = {id: decisions.first(each) for id, each in waiting.items()}
            taken = await self._insert(firsts.values(), decisions)
            for id in firsts.keys() - taken:
                for submission in waiting.pop(id):
                    decisions.decide(submission, decide_beside(submission, firsts[id], decisions.reason(submission)))
            for id, holder in (await self.services.reviews.holders(taken)).items():
                if await self._decide(waiting[id], holder, decisions):
                    del waiting[id]
        return decisions

    async def _insert(self, firsts: Iterable[Submission], decisions: SubmissionDecisions) -> set[str]:
        """Store new submissions. Returns the ids that were taken, and those of reviews that lost a claim."""
        accepted: dict[str, Submission] = {}
        refused: list[RefusedSubmission] = []
        for submission in firsts:
            if reason := decisions.reason(submission):
                refused.append(submission.refused(reason))
            else:
                accepted[submission.id] = submission
        reviews, ruled = await self._judge(accepted, decisions)
        decisions.reviews |= {accepted[id].key: review for id, review in reviews.items() if id not in ruled}
        known = decisions.rules.claims
        claims = {id: known[s.key] for id, s in accepted.items() if s.key in known}
        whole = claims.keys() | ruled.keys()
        taken = await self.services.reviews.insert([r for id, r in reviews.items() if id not in whole], refused)
        if not whole:
            return taken
        attached = StoredWith(claims, ruled, decisions.rules.uploaded)
        insert = partial(insert_whole, self.services, [reviews[id] for id in accepted if id in whole], attached)
        taken_too, lost = await self.services.transactions.run(insert)
        decisions.note_ruled(
            [(accepted[id], each) for id, each in ruled.items() if id not in taken_too and id not in lost]
        )
        await self._refuse([(accepted[id], reason) for id, reason in lost.items()], decisions)
        return taken | taken_too | lost.keys()

    async def _judge(
        self, accepted: Mapping[str, Submission], decisions: SubmissionDecisions
    ) -> tuple[dict[str, Review], dict[str, Ruled]]:
        """The reviews of submissions by id, with moderation rules applied, and those for which a rule fired."""
        reviews = {id: self.names.named(submission.accepted()) for id, submission in accepted.items()}
        ruled = {}
        for id, ruling in (await rulings_about(self.services, reviews.values(), decisions.rules.stores)).items():
            review, submission = reviews[id], accepted[id]
            apply_ruling(ruling, review)
            event = self._submitted_event(submission, review)
            trace = cause_of(submission.positions[0])
            ruled[id] = Ruled(review, ruling, event, submission.review.command_id, trace)
        return reviews, ruled

    async def _decide(self, of_one_id: Sequence[Submission], holder: IdHolder, decisions: SubmissionDecisions) -> bool:
        """Decide on the submissions of a taken id; returns False if its holder has changed meanwhile.

        A submission that was refused before is decided anew, unless it has only the refused records, or repeats a
        command that was answered with that refusal.
        """
        keys = [each.answer_key for each in of_one_id if each.review.command_id] if holder.refused else []
        answered = await self.services.outcomes.answers(keys)
        for submission in of_one_id:
            if holder.refused is None:
                decision = submission.decide_at(holder)
                decisions.decide(submission, decision)
                # Of several submissions with the same time the first one was stored.
                holder = replace(
                    holder, is_announced=holder.is_announced or (decision is not None and decision.is_stored)
                )
                continue
            fresh, reason = submission.undecided_part(holder), decisions.reason(submission)
            if fresh is not None and submission.answer_key in answered:
                reason = holder.refused.reason
            if fresh is not None and fresh.is_incomplete and reason is None:
                # The complete one that it follows has been refused before.
                reason = Refusal.INCOMPLETE
                await self._refuse([(fresh, reason)], decisions)
            if fresh is None:
                decisions.decide(submission, Decision(Outcome.REFUSED, holder.refused.reason, is_repeat=True))
                continue
            after = fresh.refused(reason, holder.refused.seen) if reason else None
            if not await self._replace(holder.refused, after, fresh, decisions):
                return False
            decision = Decision(Outcome.REFUSED, reason, is_repeat=True) if reason else stored_before(fresh.created)
            decisions.decide(submission, decision)
            holder = fresh.holder(after)
        return True

    async def _replace(
        self,
        before: RefusedSubmission,
        after: RefusedSubmission | None,
        fresh: Submission,
        decisions: SubmissionDecisions,
    ) -> bool:
        """Replace a refused submission by a later refusal, or else by the review with all that belongs to it. Returns
        False if the submission has changed meanwhile, or another review has a claim."""
        if after:
            return await self.services.reviews.replace_refused(before, after)
        claims = decisions.rules.claims.get(fresh.key)
        reviews, ruled = await self._judge({fresh.id: fresh}, decisions)
        if claims is None and not ruled:
            return await self.services.reviews.replace_refused(before, reviews[fresh.id])
        attached = StoredWith({fresh.id: claims or ()}, ruled, decisions.rules.uploaded)
        replace = partial(replace_whole, self.services, before, reviews[fresh.id], attached)
        is_replaced, reason = await self.services.transactions.run(replace)
        await self._refuse([(fresh, reason)] if reason else [], decisions)
        decisions.note_ruled([(fresh, each) for each in ruled.values() if is_replaced])
        return is_replaced

    async def _refuse(self, lost: Sequence[tuple[Submission, Refusal]], decisions: SubmissionDecisions) -> None:
        """Refuse submissions that turn out to be impossible: published first, then stored like any refusal."""
        await self._publish_refusals(lost)
        decisions.lost.update((submission.key, reason) for submission, reason in lost)

    async def _publish_stored(
        self, submissions: Mapping[Key, Submission], decisions: SubmissionDecisions, of: Collection[str] | None = None
    ) -> None:
        """Publish events for stored reviews, for all or those with the ids `of`, unless they are published already."""
        unpublished = [key for key in decisions.unannounced() if of is None or key.id in of]
        events = []
        for key in unpublished:
            created = decisions.decided[key].created
            review = None if created else decisions.reviews.get(key)
            events.append(self._submitted_event(submissions[key].without_earlier_records(created), review))
        await self.services.publisher.publish(events)
        decisions.announced.update(unpublished)

    async def _publish_rivals(self, submissions: Mapping[Key, Submission], decided: Mapping[Key, Decision]) -> None:
        """Publish the refusals of submissions whose ids were taken; those of edits are emitted by their transaction."""
        rivals = [submissions[k] for k, v in decided.items() if v.reason is Refusal.ID_TAKEN and not v.is_edit]
        # A command with an answer is a repeat: its review was stored, and has been deleted since.
        answered = await self.services.outcomes.answers([s.answer_key for s in rivals if s.review.command_id])
        await self._publish_refusals((s, Refusal.ID_TAKEN) for s in rivals if s.answer_key not in answered)

    async def _publish_refusals(self, refused: Iterable[tuple[Submission | None, Refusal]]) -> None:
        """Publish that submissions were refused: at least once, with the same event id on a repeat."""
        events = []
        for submission, reason in refused:
            if submission is None:
                continue
            key = submission.review.identity.key
            data = submission_refused(submission.id, key, reason)
            # With its key: an array can hold several rivals for one id.
            id = str(uuid5(_EVENTS, f"{submission.positions[0]}/{submission.key}"))
            events.append(self.services.event(entity_key(key.entity), "SubmissionRefused", data, id=id))
        await self.services.publisher.publish(events)

    def _submitted_event(self, submission: Submission, review: Review | None) -> OutgoingMessage:
        """The event for a stored review; a redelivery gives it the same id."""
        review = review or submission.accepted()
        return self.services.event(
            entity_key(review.entity),
            "ReviewSubmitted",
            review_submitted(review),
            id=str(uuid5(_EVENTS, f"{submission.id}/{submission.positions[0].timestamp}")),
            cause=cause_of(submission.positions[0]),
        )

    async def _release_parked(
        self, submissions: Mapping[Key, Submission], decisions: SubmissionDecisions, settled: Mapping[str, Entity]
    ) -> None:
        """Publish that reviews were stored, then release the commands parked for them."""
        await self._publish_stored(submissions, decisions)
        # Store first, then look for parked commands: the router parks first, then looks up, so one sees the other.
        await self.parked.release(settled)

    async def _finish(self, submissions: Mapping[Key, Submission], decided: Mapping[Key, Decision]) -> None:
        """Mark stored reviews that purchases verify, then store the answers that clients wait for."""
        await verify_submissions(self.services.purchases, [(submissions[key], v) for key, v in decided.items()])
        await self._answer(submissions, decided)

    async def _answer(self, submissions: Mapping[Key, Submission], decided: Mapping[Key, Decision]) -> None:
        answers = [
            Answer(*submission.answer_key, v.outcome, v.reason and v.reason.value, submission.mark)
            for submission, v in ((submissions[key], v) for key, v in decided.items() if not v.is_edit)
            if submission.review.command_id
        ]
        await self.services.outcomes.remember(answers, datetime.now(UTC))


def _has_tokens(batch: Iterable[Received[Sequence[SubmittedReview]]]) -> bool:
    return any(review.token for _, reviews in batch for review in reviews)
