"""The decisions about a batch of submissions.

Each depends on the holder of the id, and on the records and the `Key` of the submission (`decide_beside`,
`Submission.decide_at`):

| Holder of the id | Same message | Other message, same review | Other review: a rival |
|---|---|---|---|
| none: the first that no rule refuses is stored, APPLIED | the same submission | an edit of it | ID_TAKEN |
| a refused submission | records seen before: REFUSED, as before; others: decided anew | same | same |
| a review | its stored record: APPLIED; others: UNCHANGED | a newer record: an edit; others: UNCHANGED | ID_TAKEN |
| a deleted review | a record with the time of the stored one: APPLIED; others: ID_TAKEN | same | same |

A submission without text or rating is never stored: unless a review has its id by its turn, it is REFUSED, INCOMPLETE.
A redelivered stored record is APPLIED, so that interrupted work is finished: the event, the answer. A submission that
the rules refuse is REFUSED if its id is free or held by a refused submission; an edit carries the reason along.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from consumers.moderation_rules import Ruled, count_rulings
from consumers.reviews_rules import BatchRules, with_nothing_to_edit
from consumers.reviews_submissions import ID_TAKEN, STORED, Decision, Key, Submission
from domain.commands import Outcome
from domain.ratings import Entity
from domain.reviews import Review
from domain.reviews_edits import Edited, is_same_review
from domain.reviews_refusals import Refusal
from messaging.metrics import SUBMISSIONS


@dataclass(slots=True)
class SubmissionDecisions:
    """The decisions about a batch so far, and the submissions that are edits, in order."""

    rules: BatchRules
    decided: dict[Key, Decision] = field(default_factory=dict)
    edits: list[Submission] = field(default_factory=list)
    reviews: dict[Key, Review] = field(default_factory=dict)
    """New reviews for which no moderation rule fired."""
    announced: set[Key] = field(default_factory=set)
    """Submissions whose event `ReviewSubmitted` is published, or stored in the outbox with their review."""
    lost: dict[Key, Refusal] = field(default_factory=dict)
    """Refusals of submissions that the rules allow, but whose claim turned out to belong to another review, or that
    turned out to have nothing to edit."""

    def reason(self, submission: Submission) -> Refusal | None:
        """The reason for which a submission is refused, if any: by the rules, or as it turned out."""
        return self.rules.reasons.get(submission.key) or self.lost.get(submission.key)

    def first(self, of_one_id: Sequence[Submission]) -> Submission:
        """The submission of an id to store. If all are refused, it has the records of all, so that no redelivery is
        accepted once the rules allow it."""
        accepted = next((each for each in of_one_id if not self.reason(each)), None)
        return accepted or of_one_id[0]._replace(positions=tuple(p for each in of_one_id for p in each.positions))

    def decide(self, submission: Submission, decision: Decision | None) -> None:
        """Record the decision about a submission; None: it is an edit."""
        if decision is None:
            self.edits.append(submission)
        else:
            self.decided.setdefault(submission.key, decision)
            if decision.is_announced:
                self.announced.add(submission.key)

    def unannounced(self) -> list[Key]:
        """Submissions whose reviews are stored, and whose events may still have to be published."""
        return [key for key, decision in self.decided.items() if decision.is_stored and key not in self.announced]

    def with_nothing_to_edit(self, submissions: Iterable[Submission]) -> list[tuple[Submission, Refusal]]:
        """The submissions that are refused unless a review has their id, because they omit what only an edit may."""
        found = with_nothing_to_edit(submissions, lambda each: self.reason(each) is not None)
        return [(each, Refusal.INCOMPLETE) for each in found]

    def note_ruled(self, ruled: Collection[tuple[Submission, Ruled]]) -> None:
        """Note submissions that were stored with rulings, whose events are in the outbox, and count the rulings."""
        self.announced.update(submission.key for submission, _ in ruled)
        count_rulings(each.ruling for _, each in ruled)


def decide_beside(submission: Submission, first: Submission, reason: Refusal | None) -> Decision | None:
    """The decision about a submission whose id has just been given to the first one; None for an edit of that one."""
    if reason:
        return Decision(Outcome.REFUSED, reason)
    if submission is first:
        return STORED
    if is_same_review(submission.key.identity, first.key.identity, submission.right):
        return None
    return ID_TAKEN


def decision_of_edit(edited: Edited) -> Decision:
    """The decision about a submission that was an edit."""
    return Decision(edited.outcome, edited.reason, is_repeat=edited.is_repeat, is_edit=True)


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
