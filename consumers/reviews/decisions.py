"""The decisions about a batch of submissions.

Each depends on the holder of the id, and on the records and the `Key` of the submission:

| Holder of the id | Same message | Other message, same review | Other review: a rival |
|---|---|---|---|
| none: the first that no rule refuses is stored, APPLIED | the same submission | an edit of it | ID_TAKEN |
| a refused submission | records seen before: REFUSED, as before; others: decided anew | same | same |
| a review | its stored record: APPLIED; others: UNCHANGED | a newer record: an edit; others: UNCHANGED | ID_TAKEN |
| a deleted review | the time of the stored record: APPLIED; decided before: UNCHANGED; others: ID_TAKEN | same | same |

The first row is `SubmissionStore._insert` and `SubmissionDecisions.decide_beside`, the second
`SubmissionStore._decide_anew`; the others are `decide_at`.

A submission without text or rating is never stored: unless a review has its id by its turn, it is REFUSED, INCOMPLETE.
A redelivered stored record is APPLIED, so that interrupted work is finished: the event, the answer. A submission that
the rules refuse is REFUSED if its id is free or held by a refused submission; an edit carries the reason along, also
one of a review that is stored from the same batch.
"""

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, NamedTuple

from consumers.reviews.submissions import Key, Submission
from domain.commands import Outcome
from domain.delivery import RecordPosition, Seen
from domain.ratings import Entity
from domain.reviews import Review
from domain.reviews_edits import Edited, is_same_review
from domain.reviews_refusals import Refusal
from messaging.metrics import SUBMISSIONS
from storage.reviews.ids import IdHolder


class Decision(NamedTuple):
    """The decision about a submission."""

    outcome: Outcome
    reason: Refusal | None = None
    is_repeat: bool = False
    """True if its id was taken before."""
    is_stored: bool = False
    """True if its review was stored from this very submission: its event may still have to be published, and its
    purchase verified."""
    is_announced: bool = False
    """True if the transaction that stored its review emitted the event."""
    is_edit: bool = False
    """True if the transaction of edits decided."""
    review: Review | None = None
    """The review, if it has been stored from the batch for the first time."""
    created: datetime | None = None
    """The time of the stored record, where that may not be the first one."""

    @property
    def refusal(self) -> Refusal | None:
        """The reason to answer; None unless it is refused."""
        return self.reason if self.outcome is Outcome.REFUSED else None


ID_TAKEN: Final = Decision(Outcome.REFUSED, Refusal.ID_TAKEN)
REPEATED: Final = Decision(Outcome.UNCHANGED, is_repeat=True)
REDELIVERED: Final = Decision(Outcome.UNCHANGED, Refusal.ID_TAKEN, is_repeat=True)
"""The decision about a record that was decided before its review was deleted. It may have been an edit or a rival, so
its refusal isn't announced."""


def stored_before(created: datetime | None, *, is_announced: bool) -> Decision:
    """The decision about a submission whose review was stored before, from the record with that time."""
    return Decision(Outcome.APPLIED, is_repeat=True, is_stored=True, is_announced=is_announced, created=created)


@dataclass(slots=True)
class SubmissionDecisions:
    """The decisions about a batch. Each step adds its own."""

    submissions: Mapping[Key, Submission]
    """The batch."""
    reasons: dict[Key, Refusal]
    """Refusals: first those by the rules, then those that only storing reveals."""
    published: set[Key] = field(default_factory=set)
    """Submissions whose refusals are published."""
    decided: dict[Key, Decision] = field(default_factory=dict)
    edits: list[Submission] = field(default_factory=list)
    """The submissions that edit stored reviews, in order; the transaction of the edits decides on them."""

    def decide(self, submission: Submission, decision: Decision) -> None:
        """Add the decision about a submission. An earlier one stays."""
        self.decided.setdefault(submission.key, decision)

    def decide_beside(self, of_one_id: Iterable[Submission], edits: Collection[Key]) -> None:
        """Decide on the submissions of an id that has just been given to the first of them. If that is a review, it is
        decided on already."""
        for each in of_one_id:
            if each.key in edits:
                self.edits.append(each)
            elif each.key not in self.decided:
                reason = self.reasons.get(each.key)
                self.decided[each.key] = Decision(Outcome.REFUSED, reason) if reason else ID_TAKEN

    def decide_taken(self, of_one_id: Iterable[Submission], holder: IdHolder) -> None:
        """Decide on the submissions of an id that a review has, or had until its deletion."""
        for each in of_one_id:
            decision = decide_at(each, holder)
            if decision is None:
                self.edits.append(each)
                continue
            if decision.is_stored:
                # Of several submissions with the same time the first one was stored.
                holder = replace(holder, is_announced=True)
            self.decide(each, decision)

    def decide_edits(self, edited: Iterable[Edited]) -> None:
        """Add the decisions about the edits, from their results in order."""
        for submission, each in zip(self.edits, edited, strict=True):
            self.decided[submission.key] = Decision(each.outcome, each.reason, is_repeat=each.is_repeat, is_edit=True)

    def pairs(self) -> list[tuple[Submission, Decision]]:
        """The submissions decided on so far, with the decisions."""
        return [(self.submissions[key], decision) for key, decision in self.decided.items()]


def with_nothing_to_edit(submissions: Iterable[Submission], refused: Container[Key]) -> list[Submission]:
    """The incomplete submissions that follow no complete one with their id: unless a review has it, there is nothing
    to edit. Refused submissions are left out, and count as missing."""
    complete: set[str] = set()
    found = []
    for each in submissions:
        if each.key in refused:
            continue
        if not each.is_incomplete:
            complete.add(each.id)
        elif each.id not in complete:
            found.append(each)
    return found


def first_to_store(of_one_id: Sequence[Submission], refused: Container[Key]) -> Submission:
    """The submission of an id to store, behind the refused ones before it. If all are refused, it has the records of
    all, so that no redelivery is accepted once the rules allow it."""
    records = list[RecordPosition]()
    for each in of_one_id:
        if each.key not in refused:
            return each.behind(records)
        records += each.positions
    return of_one_id[0]._replace(positions=tuple(records))


def edits_beside(of_one_id: Iterable[Submission], refused: Container[Key]) -> Iterator[Submission]:
    """The submissions that edit the one of their id that is to be stored. One that the rules refuse is an edit all the
    same, which carries the reason along: where the edit is refused, the review remembers its record."""
    first: Submission | None = None
    for each in of_one_id:
        if first and is_same_review(each.key.identity, first.key.identity, each.right):
            yield each
        elif first is None and each.key not in refused:
            first = each


def decide_at(submission: Submission, holder: IdHolder) -> Decision | None:
    """The decision about a submission whose id a review has, or had until its deletion; None: the review is to be
    edited."""
    created = submission.without_earlier_records(holder.created).created
    is_first = not submission.is_incomplete and holder.created == created
    if holder.identity is None or holder.written is None:
        # The review came from this very record, and may have been deleted before its event was published.
        if is_first:
            return stored_before(holder.created, is_announced=holder.is_announced)
        written = Seen().after(holder.written.position) if holder.written else Seen()
        return REDELIVERED if all(map(written.covers, submission.positions)) else ID_TAKEN
    if not is_same_review(submission.key.identity, holder.identity, submission.right):
        return ID_TAKEN
    is_known = submission.key.message in holder.written.messages
    if not is_known and not holder.written.covers(submission.aged_position):
        return None
    # Another submission with the same time may have been refused, or have come too late.
    is_its_own = holder.written.messages[:1] in ((), (submission.key.message,))
    if is_first and is_its_own and submission.key.identity == holder.identity:
        return stored_before(holder.created, is_announced=holder.is_announced)
    return REPEATED


def settled_entities(decided: Mapping[Key, Decision]) -> dict[str, Entity]:
    """The objects of the reviews that have the ids, by id."""
    # Of rivals the accepted one comes last, so that parked commands about the id go to its object.
    settled = sorted(decided.items(), key=lambda settled: settled[1].reason is None)
    return {key.id: key.identity.entity for key, v in settled if v.reason is not Refusal.ID_TAKEN}


def count_decisions(decided: Iterable[Decision]) -> None:
    """Count decisions in the metrics."""
    for result, number in Counter(map(_label, decided)).items():
        SUBMISSIONS.labels(result).inc(number)


def _label(decision: Decision) -> str:
    if decision.is_repeat or (decision.is_edit and decision.outcome is Outcome.UNCHANGED):
        return "repeated"
    if decision.reason:
        return decision.reason.value
    return "edited" if decision.is_edit else "stored"
