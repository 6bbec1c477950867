"""Consume review submissions: load, decide, write, tell.

1. `known_submissions` reads the submissions of a batch (`submissions.py`).
2. `rules_about` finds the refusals by the rules (`rules.py`).
3. `SubmissionStore` stores one submission for each free id, and decides on the others (`stored.py`), by the table of
   `decisions.py`.
4. `ReviewEditor` applies those that edit stored reviews (`edits.py`).
5. Events (`events.py`), answers and purchases follow, and commands that waited for the reviews.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from consumers.languages import detect_languages
from consumers.names_known import KnownNames
from consumers.parked_commands import ParkedCommands
from consumers.purchases import verify_submissions
from consumers.reviews.decisions import (
    ID_TAKEN,
    Decision,
    SubmissionDecisions,
    count_decisions,
    settled_entities,
)
from consumers.reviews.edits import ReviewEditor
from consumers.reviews.events import publish_refusals, submitted_event
from consumers.reviews.rules import BatchRules, rules_about
from consumers.reviews.stored import SubmissionStore
from consumers.reviews.submissions import Key, Submission, known_submissions
from consumers.services import Services
from domain.delivery import OutgoingMessage
from domain.ratings import Entity
from domain.reviews_refusals import Refusal
from messaging.decoding import Received
from messaging.reviews import SubmittedReview
from storage.outcomes import ItemOutcome


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
        known = await known_submissions(self.services, batch, token_keys)
        if known:
            rules = await rules_about(self.services, known.values(), token_keys)
            await self._apply(await self._detected(known, rules), rules)

    async def _apply(self, submissions: Mapping[Key, Submission], rules: BatchRules) -> None:
        """Store reviews, apply edits, and tell everyone."""
        decisions = SubmissionDecisions(submissions, {**rules.reasons})
        await SubmissionStore(self.services, self.names, rules, decisions).store()
        stored = self._stored_events(decisions)
        if decisions.edits:
            # Edits take time, in which a stored review may be moderated: its first event precedes all others.
            await self.services.publisher.publish(stored)
            stored = []
        await self._refuse_rivals([pair for pair in decisions.pairs() if pair[1] == ID_TAKEN])
        edits = [submission.edit(decisions.reasons.get(submission.key)) for submission in decisions.edits]
        decisions.decide_edits(await ReviewEditor(self.services).apply(edits, rules.uploaded))
        decided = decisions.decided
        count_decisions(decided.values())
        await asyncio.gather(
            self._finish(decisions.pairs()),
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
                proof=rules.tokens.get(key),
                detected_language=detected.get(key),
            )
            for key, each in submissions.items()
        }

    def _stored_events(self, decisions: SubmissionDecisions) -> list[OutgoingMessage]:
        """The events for stored reviews that may still have to be published."""
        events = []
        for submission, decision in decisions.pairs():
            if decision.is_stored and not decision.is_announced:
                own = submission.without_earlier_records(decision.created)
                events.append(submitted_event(self.services, own, decision.review or own.accepted()))
        return events

    async def _refuse_rivals(self, rivals: Collection[tuple[Submission, Decision]]) -> None:
        """Publish and answer the refusals of submissions whose ids were taken; those of edits are emitted by their
        transaction, and follow: `REDELIVERED` relies on it."""
        # A command with an answer is a repeat: its review was stored, and has been deleted since.
        answered = await self.services.outcomes.answers([s.answer_key for s, _ in rivals if s.review.command_id])
        refused = ((s, Refusal.ID_TAKEN) for s, _ in rivals if s.answer_key not in answered)
        await publish_refusals(self.services, refused)
        await self._answer(rivals)

    async def _release_parked(self, stored: Sequence[OutgoingMessage], settled: Mapping[str, Entity]) -> None:
        """Publish that reviews were stored, then release the commands parked for the reviews that have the ids."""
        await self.services.publisher.publish(stored)
        # Store first, then look for parked commands: the router parks first, then looks up, so one sees the other.
        await self.parked.release(settled)

    async def _finish(self, decided: Collection[tuple[Submission, Decision]]) -> None:
        """Mark stored reviews that purchases verify, then store the answers that clients wait for."""
        await verify_submissions(self.services.purchases, decided)
        await self._answer(decided)

    async def _answer(self, decided: Iterable[tuple[Submission, Decision]]) -> None:
        answers = [
            ItemOutcome(*submission.answer_key, v.outcome, v.refusal and v.refusal.value, submission.mark)
            for submission, v in decided
            if submission.review.command_id and not v.is_edit
        ]
        await self.services.outcomes.remember(answers, datetime.now(UTC))
