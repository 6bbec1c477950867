"""The decisions about a batch of submissions.

Each follows from the holder of the id, and from the records and the `Key` of the submission (`beside`,
`Submission.at`):

| Holder of the id | the same message | another message, same review | another review: a rival |
|---|---|---|---|
| none: the first that no rule refuses is stored, APPLIED | the same submission | an edit of that | ID_TAKEN |
| a refused submission | records seen before: REFUSED, as then; others are decided anew | as left | as left |
| a review | its stored record: APPLIED; others: UNCHANGED | a newer record: an edit; others: UNCHANGED | ID_TAKEN |
| a deleted review | a record of the time of the stored one: APPLIED; others: ID_TAKEN | as left | as left |

A stored record that comes again is APPLIED, so that what was cut off is done: the event, the answer. What the rules
refuse is REFUSED where the id is free, or of a refused submission; an edit takes the reason along.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from consumers.moderation_rules import Ruled, count_rulings
from consumers.reviews_rules import BatchRules
from consumers.reviews_submissions import ID_TAKEN, STORED, Decision, Key, Submission
from domain.commands import Outcome
from domain.reviews import Review
from domain.reviews_edits import Edited, is_same_review
from domain.stores import Refusal
from messaging.metrics import SUBMISSIONS


@dataclass(slots=True)
class SubmissionDecisions:
    """The decisions about a batch so far, and the submissions that are edits, in order."""

    rules: BatchRules
    decided: dict[Key, Decision] = field(default_factory=dict)
    edits: list[Submission] = field(default_factory=list)
    reviews: dict[Key, Review] = field(default_factory=dict)
    """New reviews that no moderation rule fired for."""
    told: set[Key] = field(default_factory=set)
    """Those whose event `ReviewSubmitted` is published, or owed by the transaction that stored the review."""

    def reason(self, submission: Submission) -> Refusal | None:
        """The reason of the rules against a submission, if any."""
        return self.rules.reasons.get(submission.key)

    def first(self, of_one_id: Sequence[Submission]) -> Submission:
        """The one of an id that is to be stored; where all are refused, one for the records of all of them, so that no
        redelivery is taken once the rules allow it."""
        accepted = next((each for each in of_one_id if not self.reason(each)), None)
        return accepted or of_one_id[0]._replace(positions=tuple(p for each in of_one_id for p in each.positions))

    def decide(self, submission: Submission, decision: Decision | None) -> None:
        """Decide about a submission; None where it is an edit."""
        if decision is None:
            self.edits.append(submission)
        else:
            self.decided.setdefault(submission.key, decision)
            if decision.is_told:
                self.told.add(submission.key)

    def untold(self) -> list[Key]:
        """Those whose reviews are stored, and that may have to be told yet."""
        return [key for key, decision in self.decided.items() if decision.is_stored and key not in self.told]

    def follow(self, ruled: Collection[tuple[Submission, Ruled]]) -> None:
        """Take into account what moderation rules did."""
        self.told.update(submission.key for submission, _ in ruled)
        count_rulings(each.ruling for _, each in ruled)


def beside(submission: Submission, first: Submission, reason: Refusal | None) -> Decision | None:
    """The decision about a submission of an id that has just been given to the first one; None for an edit of that."""
    if reason:
        return Decision(Outcome.REFUSED, reason)
    if submission is first:
        return STORED
    if is_same_review(submission.key.identity, first.key.identity, submission.right):
        return None
    return ID_TAKEN


def of_edit(edited: Edited) -> Decision:
    """The decision about a submission that was an edit."""
    return Decision(edited.outcome, edited.reason, is_repeat=edited.is_repeat, is_edit=True)


def count(decided: Iterable[Decision]) -> None:
    """Count decisions."""
    for result, number in Counter(map(_label, decided)).items():
        SUBMISSIONS.labels(result).inc(number)


def _label(decision: Decision) -> str:
    if decision.is_repeat or (decision.is_edit and decision.outcome is Outcome.UNCHANGED):
        return "repeated"
    if decision.reason:
        return decision.reason.value
    return "edited" if decision.is_edit else "stored"
