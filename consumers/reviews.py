"""Consume review submissions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID, uuid5

from consumers.names_known import KnownNames
from consumers.review_tokens import Candidate, SubmissionRules
from consumers.routing import CommandRouter
from consumers.services import Services
from domain.delivery import RecordPosition, Seen
from domain.ratings import Entity, TallyKey
from domain.reviews import Outcome, Review, ReviewIdentity
from domain.stores import Refusal
from domain.timestamps import from_milliseconds
from messaging.decoding import RawRecord, Received, position_of
from messaging.envelope import cloud_event_identity
from messaging.events import submission_refused
from messaging.metrics import SUBMISSIONS
from messaging.reviews import SubmittedReview, entity_key
from storage.outcomes import Answer
from storage.reviews import RefusedSubmission, TakenId

_SUBMISSIONS_WITHOUT_ID = UUID("5f0a2c3e-3f0b-5d7c-9a57-6d1a4f7c9b10")
_EVENTS = UUID("a8c1d0c7-7a0b-5f0e-8a54-0f5b7a1e2c33")


class _Key(NamedTuple):
    """An id, and the review that it is to stand for. Submissions with one id and different identities are rivals."""

    id: str
    identity: ReviewIdentity


class _Verdict(NamedTuple):
    """The decision about a submission; `is_repeat` where its id was taken before."""

    outcome: Outcome
    reason: Refusal | None = None
    is_repeat: bool = False


@dataclass(frozen=True, slots=True)
class _Submission:
    """A submission with its id, and the records that held it, the first of which counts."""

    key: _Key
    review: SubmittedReview
    positions: tuple[RecordPosition, ...]
    object_name: str | None = None

    @property
    def id(self) -> str:
        return self.key.id

    @property
    def created(self) -> datetime:
        # The record's own time, so that a redelivery writes the same document.
        return from_milliseconds(self.positions[0].timestamp)

    @property
    def answer_key(self) -> tuple[str, str]:
        return self.review.command_id or "", self.id

    def accepted(self) -> Review:
        review = self.review.accepted(self.id, self.created)
        return replace(review, entity_name=review.entity_name or self.object_name)

    def refused(self, reason: Refusal, before: Seen | None = None) -> RefusedSubmission:
        seen = before or Seen()
        for position in self.positions:
            seen = seen.after(position)
        return RefusedSubmission(self.id, reason, self.created, seen)

    def repeated(self, position: RecordPosition) -> _Submission:
        return replace(self, positions=(*self.positions, position))

    def news(self, place: TakenId | None) -> _Submission | None:
        """The part to decide anew where its id is taken: None, unless it was refused and has been submitted again."""
        if place is None:
            return self
        if place.refused is None:
            return None
        fresh = tuple(p for p in self.positions if not place.refused.seen.covers(p))
        return replace(self, positions=fresh) if fresh else None

    def at(self, place: TakenId) -> _Verdict:
        """The decision where a review has the id, or had it until it was deleted."""
        if place.created == self.created and place.identity in (None, self.key.identity):
            return _Verdict(Outcome.APPLIED, is_repeat=True)  # the review is of this very record
        if place.identity == self.key.identity:
            return _Verdict(Outcome.UNCHANGED, is_repeat=True)
        return _Verdict(Outcome.REFUSED, Refusal.ID_TAKEN)


@dataclass(frozen=True, slots=True)
class SubmissionConsumer:
    """Stores submitted reviews.

    Delivered at least once; a repeat changes nothing, and an id that is another's is refused with an event. Without an
    id from the sender the id follows from the CloudEvents identity, else from the content: the same message twice is
    one review. What the store's rules don't allow is refused with an event, and taken when it is sent again once they
    do.
    """

    services: Services
    router: CommandRouter
    names: KnownNames

    @property
    def rules(self) -> SubmissionRules:
        """The rules that decide about them."""
        return SubmissionRules(self.services)

    async def __call__(self, batch: Sequence[Received[Sequence[SubmittedReview]]]) -> None:
        """Store a batch."""
        keys = await self.services.review_tokens.keys() if _has_tokens(batch) else ()
        submissions = _submissions(batch, keys)
        judgement = await self.rules.judge(
            {key: Candidate(key.id, each.review, each.created) for key, each in submissions.items()},
            {key: p for key, each in submissions.items() if (p := each.review.proof(keys, each.created))},
        )
        reasons, names = judgement.reasons, judgement.names
        submissions = {key: replace(each, object_name=names.get(key)) for key, each in submissions.items()}
        # The rules may have changed since a record was decided about: what is taken isn't told to be refused.
        places = await self.services.reviews.taken({key.id for key in reasons})
        # Before anything is stored: a refusal that is stored is not told again.
        await self._announce((submissions[k].news(places.get(k.id)), reason) for k, reason in reasons.items())
        verdicts = await self._store(submissions, reasons)
        await self.rules.release(judgement, (k for k, v in verdicts.items() if v.reason is Refusal.ID_TAKEN))
        await self._tell_rivals(submissions, verdicts)
        _count(verdicts.values())
        await asyncio.gather(
            self._answer(submissions, verdicts),
            # Written first, looked up then: the router does it the other way round, so one of the two sees the other.
            self.router.release(_entities(verdicts)),
        )

    async def _store(
        self, submissions: Mapping[_Key, _Submission], reasons: Mapping[_Key, Refusal]
    ) -> dict[_Key, _Verdict]:
        """Store reviews and the places of refused submissions, and decide about each as if it had come alone."""
        verdicts: dict[_Key, _Verdict] = {}
        waiting: dict[str, list[_Submission]] = {}
        for key, submission in submissions.items():
            waiting.setdefault(key.id, []).append(submission)
        while waiting:
            firsts = {id: next((s for s in each if s.key not in reasons), each[0]) for id, each in waiting.items()}
            taken = await self.services.reviews.insert(
                (self.names.named(s.accepted()) for s in firsts.values() if s.key not in reasons),
                (s.refused(reasons[s.key]) for s in firsts.values() if s.key in reasons),
            )
            for id in firsts.keys() - taken:
                for submission in waiting.pop(id):
                    reason = reasons.get(submission.key)
                    if reason is None and submission is not firsts[id]:
                        reason = Refusal.ID_TAKEN
                    verdicts[submission.key] = _Verdict(Outcome.REFUSED if reason else Outcome.APPLIED, reason)
            for id, place in (await self.services.reviews.taken(taken)).items():
                if await self._decide(waiting[id], reasons, place, verdicts):
                    del waiting[id]
        return verdicts

    async def _decide(
        self,
        rivals: Iterable[_Submission],
        reasons: Mapping[_Key, Refusal],
        place: TakenId,
        verdicts: dict[_Key, _Verdict],
    ) -> bool:
        """Decide about the submissions of an id that is taken; False when that has changed meanwhile.

        One that was refused before is decided anew, unless these are the records that were refused.
        """
        for submission in rivals:
            if place.refused is None:
                verdicts.setdefault(submission.key, submission.at(place))
                continue
            again, reason = submission.news(place), reasons.get(submission.key)
            if again is None:
                verdicts.setdefault(submission.key, _Verdict(Outcome.REFUSED, place.refused.reason, is_repeat=True))
                continue
            refused = again.refused(reason, place.refused.seen) if reason else None
            after = refused or self.names.named(again.accepted())
            if not await self.services.reviews.replace_refused(place.refused, after):
                return False
            verdicts[submission.key] = _Verdict(Outcome.REFUSED if reason else Outcome.APPLIED, reason, is_repeat=True)
            place = TakenId(again.created, submission.key.identity, refused)
        return True

    async def _tell_rivals(self, submissions: Mapping[_Key, _Submission], verdicts: Mapping[_Key, _Verdict]) -> None:
        rivals = [submissions[key] for key, v in verdicts.items() if v.reason is Refusal.ID_TAKEN]
        # A command that has its answer is repeated: its review was stored, and has been deleted since.
        answered = await self.services.outcomes.answers([s.answer_key for s in rivals if s.review.command_id])
        await self._announce((s, Refusal.ID_TAKEN) for s in rivals if s.answer_key not in answered)

    async def _announce(self, refused: Iterable[tuple[_Submission | None, Refusal]]) -> None:
        """Tell that submissions were refused: at least once, by an id that a repeat makes again."""
        events = []
        for submission, reason in refused:
            if submission is None:
                continue
            key = TallyKey(submission.review.entity, submission.review.store_id)
            events.append(
                self.services.event(
                    entity_key(key.entity),
                    "SubmissionRefused",
                    submission_refused(submission.id, key, reason),
                    # With its identity: an array can hold several rivals for one id.
                    id=str(uuid5(_EVENTS, f"{submission.positions[0]}/{submission.key}")),
                )
            )
        await self.services.publisher.publish(events)

    async def _answer(self, submissions: Mapping[_Key, _Submission], verdicts: Mapping[_Key, _Verdict]) -> None:
        answers = [
            Answer(*submissions[key].answer_key, verdict.outcome, verdict.reason and verdict.reason.value)
            for key, verdict in verdicts.items()
            if submissions[key].review.command_id
        ]
        await self.services.outcomes.remember(answers, datetime.now(UTC))


def _has_tokens(batch: Iterable[Received[Sequence[SubmittedReview]]]) -> bool:
    return any(review.token for _, reviews in batch for review in reviews)


def _submissions(
    batch: Iterable[Received[Sequence[SubmittedReview]]], token_keys: Sequence[bytes]
) -> dict[_Key, _Submission]:
    """The submissions of a batch. One that comes twice counts where it comes first, as it does across batches."""
    submissions: dict[_Key, _Submission] = {}
    for record, reviews in batch:
        position = position_of(record)
        for index, submitted in enumerate(reviews):
            review = submitted.by_author(token_keys, from_milliseconds(record.timestamp))
            key = _Key(review.id or _derived_id(record, index), review.identity)
            first = submissions.get(key)
            submissions[key] = first.repeated(position) if first else _Submission(key, review, (position,))
    return submissions


def _entities(verdicts: Mapping[_Key, _Verdict]) -> dict[str, Entity]:
    """The objects of the ids that reviews have now."""
    # Of rivals the one that was not refused comes last: commands that wait for the id go to its object.
    settled = sorted(verdicts.items(), key=lambda settled: settled[1].reason is None)
    return {key.id: key.identity.entity for key, v in settled if v.reason is not Refusal.ID_TAKEN}


def _count(verdicts: Iterable[_Verdict]) -> None:
    for result, count in Counter(map(_label, verdicts)).items():
        SUBMISSIONS.labels(result).inc(count)


def _label(verdict: _Verdict) -> str:
    if verdict.is_repeat:
        return "repeated"
    return verdict.reason.value if verdict.reason else "stored"


def _derived_id(record: RawRecord, index: int) -> str:
    identity = cloud_event_identity(record.headers)
    content = identity.encode() if identity else record.value or b""
    return str(uuid5(_SUBMISSIONS_WITHOUT_ID, content.hex() + f"/{index}"))
