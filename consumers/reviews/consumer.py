"""Consume review submissions.

A batch is read and checked by the rules. For each free id one submission is stored; the decisions about the others are
in the table of `consumers.reviews.decisions`. Edits, events and answers follow.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, repeat
from typing import Final

from consumers.languages import detect_languages
from consumers.names_known import KnownNames
from consumers.parked_commands import ParkedCommands
from consumers.purchases import verify_submissions
from consumers.reviews.decisions import (
    ID_TAKEN,
    Decision,
    SubmissionDecisions,
    count_decisions,
    decide_beside,
    decision_of_edit,
    edits_beside,
    first_to_store,
    settled_entities,
)
from consumers.reviews.edits import ReviewEditor
from consumers.reviews.events import publish_rivals, publish_undecided, submitted_event
from consumers.reviews.rules import (
    BatchRules,
    decidable,
    release_tokens,
    rules_about,
    with_nothing_to_edit,
)
from consumers.reviews.stored import SubmissionStore
from consumers.reviews.submissions import Key, Submission, known_submissions
from consumers.services import Services
from domain.delivery import OutgoingMessage
from domain.ratings import Entity
from domain.reviews_refusals import Refusal
from messaging.decoding import Received
from messaging.reviews import SubmittedReview
from storage.outcomes import ItemOutcome
from storage.review_tokens import UsedToken

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

    async def __call__(self, batch: Sequence[Received[Sequence[SubmittedReview]]]) -> None:
        """Store a batch."""
        has_tokens = any(review.token for _, reviews in batch for review in reviews)
        token_keys = await self.services.review_tokens.keys() if has_tokens else ()
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
        await publish_rivals(self.services, submissions, decisions.decided)
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
        store = SubmissionStore(self.services, self.names)
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
            await publish_undecided(self.services, decisions.unpublished(chain(*waiting.values()), edits))
            inserted = await store.insert(firsts.values(), decisions.rules)
            decisions.reviews |= inserted.reviews
            decisions.refuse(inserted.lost, is_published=True)
            for id in firsts.keys() - inserted.taken:
                of_id = waiting.pop(id)
                decisions.decide(
                    (s, None if s.key in edits else decide_beside(s, firsts[id], decisions.rules, inserted))
                    for s in of_id
                )
            for id, holder in (await self.services.reviews.holders(inserted.taken)).items():
                decided = await store.decide(waiting[id], holder, decisions.rules, edits - decisions.published)
                decisions.decide(decided.decisions)
                decisions.refuse(decided.lost, is_published=True)
                if decided.is_complete:
                    del waiting[id]
        return decisions

    def _stored_events(
        self, submissions: Mapping[Key, Submission], decisions: SubmissionDecisions
    ) -> list[OutgoingMessage]:
        """The events for stored reviews that may still have to be published."""
        events = []
        for key in decisions.unannounced():
            created = decisions.decided[key].created
            submission = submissions[key].without_earlier_records(created)
            review = decisions.reviews.get(key) if created is None else None
            events.append(submitted_event(self.services, submission, review or submission.accepted()))
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
