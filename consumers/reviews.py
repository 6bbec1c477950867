"""Reviews come in."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from uuid import UUID, uuid5

from consumers.known_names import KnownNames
from consumers.moderation import CommandRouter
from domain.delivery import OutgoingMessage, RecordPosition, Seen
from domain.orders import Purchase
from domain.ratings import TallyKey
from domain.reviews import Outcome, Review
from domain.stores import Refusal, Store, refusal
from domain.timestamps import from_milliseconds
from messaging.dead_letters import dead_letter_message
from messaging.decoding import RawRecord, decoded, position_of
from messaging.envelope import cloud_event_identity
from messaging.events import submission_refused
from messaging.metrics import SUBMISSIONS
from messaging.reviews import SubmittedReview, entity_key, submissions_in
from messaging.topics import Topic
from messaging.tracing import cause_of, is_on, step
from storage.outcomes import Answer, OutcomeRepository
from storage.purchases import PurchaseRepository
from storage.reviews import RefusedSubmission, ReviewRepository, TakenId
from storage.stores import StoreRepository

_SUBMISSIONS_WITHOUT_ID = UUID("5f0a2c3e-3f0b-5d7c-9a57-6d1a4f7c9b10")
_EVENTS = UUID("a8c1d0c7-7a0b-5f0e-8a54-0f5b7a1e2c33")


@dataclass(frozen=True, slots=True)
class _Submission:
    """A submission with its id, and the records that it came in, the first of which counts."""

    id: str
    review: SubmittedReview
    positions: tuple[RecordPosition, ...]

    @property
    def created(self) -> datetime:
        # The record's own time, so that a redelivery writes the same document.
        return from_milliseconds(self.positions[0].timestamp)

    def accepted(self) -> Review:
        return self.review.accepted(self.id, self.created)

    def refused(self, reason: Refusal, before: Seen | None = None) -> RefusedSubmission:
        seen = before or Seen()
        for position in self.positions:
            seen = seen.after(position)
        return RefusedSubmission(self.id, reason, self.created, seen)

    def repeated(self, position: RecordPosition) -> _Submission:
        return replace(self, positions=(*self.positions, position))

    def news(self, place: TakenId | None) -> _Submission | None:
        """What is left to decide where its id is taken: nothing, unless it was refused and has come again since."""
        if place is None:
            return self
        if place.refused is None:
            return None
        fresh = tuple(p for p in self.positions if not place.refused.seen.covers(p))
        return replace(self, positions=fresh) if fresh else None


class SubmissionConsumer:
    """Stores submitted reviews.

    Delivered at least once; an id that is taken changes nothing. Without an id from the sender the id follows from
    the CloudEvents identity, else from the content: the same message twice is one review. What the store's rules
    don't allow is refused with an event, and taken when it is sent again once they do.
    """

    def __init__(
        self,
        reviews: ReviewRepository,
        stores: StoreRepository,
        purchases: PurchaseRepository,
        outcomes: OutcomeRepository,
        router: CommandRouter,
        names: KnownNames,
    ) -> None:
        self._names = names
        self._reviews = reviews
        self._stores = stores
        self._purchases = purchases
        self._outcomes = outcomes
        self._router = router

    async def __call__(self, records: Sequence[RawRecord]) -> None:
        """Store a batch."""
        good, bad = decoded(records, submissions_in)
        # An id that comes twice in a batch counts where it comes first, as it does across batches.
        submissions: dict[str, _Submission] = {}
        for record, reviews in good:
            position = position_of(record)
            for index, review in enumerate(reviews):
                id = review.id or _derived_id(record, index)
                first = submissions.get(id)
                submissions[id] = first.repeated(position) if first else _Submission(id, review, (position,))
        reasons = await self._refusals(submissions.values())
        # The rules may have changed since a record was decided about: what is taken isn't told to be refused.
        places = await self._reviews.taken(reasons)
        refused = [s for id in reasons if (s := submissions[id].news(places.get(id)))]
        await self._announce(refused, reasons, bad_letters=[dead_letter_message(letter) for letter in bad])
        if is_on():
            contexts = {id: cause_of(s.positions[0]) for id, s in submissions.items() if id not in reasons}
            await self._router.traces.remember(contexts, datetime.now(UTC))
        with step("store reviews"):
            taken = await self._reviews.insert(
                (self._names.named(s.accepted()) for id, s in submissions.items() if id not in reasons),
                (submissions[id].refused(reason) for id, reason in reasons.items()),
            )
        _count(submissions, reasons, taken)
        places = await self._reviews.taken(taken)
        await self._submit_again([submissions[id] for id in places], reasons, places)
        await asyncio.gather(
            self._answer(submissions.values(), reasons, places),
            # Written first, looked up then: the router does it the other way round, so one of the two sees the other.
            self._router.release({id: s.review.entity for id, s in submissions.items()}),
        )

    async def _refusals(self, submissions: Iterable[_Submission]) -> dict[str, Refusal]:
        with_store = [(s, s.review.store_id) for s in submissions if s.review.store_id is not None]
        stores = await self._stores.of_ids({store_id for _, store_id in with_store})
        purchases = {
            submission.id: Purchase(store_id, submission.review.user_id, submission.review.entity)
            for submission, store_id in with_store
            if submission.review.user_id is not None
            and store_id in stores
            and stores[store_id].settings.purchase_required
        }
        made = await self._purchases.made(set(purchases.values()))
        reasons = {
            submission.id: refusal(
                stores.get(store_id) or Store(store_id),
                user_id=submission.review.user_id,
                has_purchased=partial(made.__contains__, purchases.get(submission.id)),
            )
            for submission, store_id in with_store
        }
        return {id: reason for id, reason in reasons.items() if reason}

    async def _announce(
        self,
        refused: Iterable[_Submission],
        reasons: Mapping[str, Refusal],
        bad_letters: list[OutgoingMessage],
    ) -> None:
        # Before anything is stored, with ids that a repeat makes again: told at least once, and known as one.
        events = []
        for submission in refused:
            id = submission.id
            key = TallyKey(submission.review.entity, submission.review.store_id)
            events.append(
                self._router.envelope.wrap(
                    self._router.topics.name(Topic.EVENTS),
                    entity_key(key.entity),
                    "SubmissionRefused",
                    submission_refused(id, key, reasons[id]),
                    id=str(uuid5(_EVENTS, f"{id}/{submission.positions[0]}")),
                )
            )
        await self._router.publisher.publish([*bad_letters, *events])

    async def _submit_again(
        self, submissions: Iterable[_Submission], reasons: Mapping[str, Refusal], places: Mapping[str, TakenId]
    ) -> None:
        """Decide anew about submissions that were refused before, unless these are the records that were refused."""
        for submission in submissions:
            before, again = places[submission.id].refused, submission.news(places[submission.id])
            if before is None or again is None:
                continue
            reason = reasons.get(submission.id)
            after = again.refused(reason, before.seen) if reason else self._names.named(again.accepted())
            await self._reviews.replace_refused(submission.id, after)

    async def _answer(
        self, submissions: Iterable[_Submission], reasons: Mapping[str, Refusal], places: Mapping[str, TakenId]
    ) -> None:
        answers = []
        for submission in submissions:
            if submission.review.command_id:
                outcome, reason = _outcome(submission, reasons.get(submission.id), places.get(submission.id))
                answers.append(Answer(submission.review.command_id, submission.id, outcome, reason and reason.value))
        await self._outcomes.remember(answers, datetime.now(UTC))


def _outcome(submission: _Submission, reason: Refusal | None, place: TakenId | None) -> tuple[Outcome, Refusal | None]:
    """What became of a submission, by today's rules and by what stood at its id before."""
    if submission.news(place):
        return (Outcome.REFUSED, reason) if reason else (Outcome.APPLIED, None)
    if place and place.refused:
        return Outcome.REFUSED, place.refused.reason
    # The review is of this very record when it has been delivered again.
    return Outcome.APPLIED if place and place.created == submission.created else Outcome.UNCHANGED, None


def _count(ids: Iterable[str], reasons: Mapping[str, Refusal], taken: Container[str]) -> None:
    results = Counter("repeated" if id in taken else reasons[id].value if id in reasons else "stored" for id in ids)
    for result, count in results.items():
        SUBMISSIONS.labels(result).inc(count)


def _derived_id(record: RawRecord, index: int) -> str:
    identity = cloud_event_identity(record.headers)
    content = identity.encode() if identity else record.value or b""
    return str(uuid5(_SUBMISSIONS_WITHOUT_ID, content.hex() + f"/{index}"))
