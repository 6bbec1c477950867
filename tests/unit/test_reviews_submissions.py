"""Submissions in records of the topic: their fields, their positions, and what happens if the id is taken."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from consumers.purchases import verifiable
from consumers.reviews.decisions import ID_TAKEN, REPEATED, decide_at, with_nothing_to_edit
from consumers.reviews.submissions import Key, Submission, submissions_of
from domain.commands import Outcome
from domain.delivery import RecordPosition
from domain.reviews_edits import apply_edit
from domain.reviews_refusals import Refusal
from messaging.decoding import Received
from messaging.reviews import SubmittedReview, submissions_in
from storage.reviews.ids import IdHolder
from tests.support.records import Record

REVIEW = {"id": "r", "EntityType": "Product", "EntityId": "camera", "userId": "anna", "review": "A", "rating": 4}


def received(offset: int, reviews: list[dict[str, Any]]) -> Received[Sequence[SubmittedReview]]:
    """A record with these reviews, decoded as submissions."""
    value = json.dumps([REVIEW | each for each in reviews]).encode()
    return Received(Record(offset, timestamp=offset, value=value), submissions_in(value))


def submissions(*batch: Received[Sequence[SubmittedReview]]) -> list[Submission]:
    return list(submissions_of(batch, (), by_place=True).values())


def test_purchases_are_looked_up_for_a_stored_review_announced_or_not() -> None:
    """The look-up follows the storing and the announcement, and a worker may be killed in between."""
    (submission,) = submissions(received(0, [{}]))
    for is_announced in (False, True):
        decision = decide_at(submission, replace(submission.holder, is_announced=is_announced))
        assert decision is not None
        assert (decision.outcome, decision.is_repeat, decision.is_announced) == (Outcome.APPLIED, True, is_announced)
        review = verifiable(submission, decision)
        assert review is not None
        assert review.is_verified is None


def test_refusal_covers_all_its_records_in_any_order() -> None:
    (submission,) = submissions(received(0, [{}]))
    records = [RecordPosition(0, 9, 900), RecordPosition(1, 2, 100), RecordPosition(0, 7, 950)]
    refused = submission._replace(positions=tuple(records)).refused(Refusal.REVIEWS_DISABLED)
    assert all(refused.seen.covers(each) for each in records)
    assert not refused.seen.covers(RecordPosition(0, 10, 960))


def test_of_two_simultaneous_submissions_the_stored_one_is_applied() -> None:
    """The other one was refused by its store's rules, or arrived too late."""
    one, two = submissions(received(0, [{"review": "one"}]), received(0, [{"review": "two"}]))
    decisions = [decide_at(each, two.holder) for each in (one, two)]
    assert [(each.outcome, each.is_stored) for each in decisions if each] == [
        (Outcome.UNCHANGED, False),
        (Outcome.APPLIED, True),
    ]


def submitted(time: int, text: str, first_published: int | None = None, *, offset: int | None = None) -> Submission:
    """A submission in a record with this timestamp; `first_published` makes it a replay of that time."""
    headers = [] if first_published is None else [("x-first-published", str(first_published).encode())]
    value = json.dumps([REVIEW | {"review": text}]).encode()
    record = Record(time if offset is None else offset, headers, timestamp=time, value=value)
    (submission,) = submissions(Received(record, submissions_in(value)))
    return submission


def text_after(*submissions_in_turn: Submission) -> str:
    """The text of the first submission's review after the others have been applied one by one."""
    first, *others = submissions_in_turn
    kept = first.accepted()
    for each in others:
        holder = replace(first.holder, written=kept.written)
        if decide_at(each, holder) is None:
            kept, _ = apply_edit(kept, each.edit(None), keeps_status=False)
    return kept.text


def test_replay_does_not_overwrite_newer_text() -> None:
    stored, edit, replay = submitted(10, "stored"), submitted(30, "newer"), submitted(90, "replayed", 20)
    assert text_after(stored, edit, replay) == "newer"
    assert text_after(stored, replay, submitted(95, "later")) == "later"
    assert text_after(edit, replay) == "newer"
    assert text_after(stored, submitted(91, "replayed first", 25), replay) == "replayed first"


def test_newest_replay_is_applied() -> None:
    stored, replays = (
        submitted(10, "stored"),
        [submitted(90, "first", 20), submitted(91, "second", 20), submitted(92, "third", 25)],
    )
    assert text_after(stored, *replays[:1]) == "first"
    assert text_after(stored, *replays) == "third"
    # A review stored by a replay is no newer than the original message.
    assert text_after(*replays[:2]) == "second"
    # A redelivered replay is recognized.
    assert text_after(stored, *replays[:2], replays[0]) == "second"
    # A record after the last one of the partition is newer, whatever its sender's clock shows.
    assert text_after(stored, submitted(90, "replayed", 50), submitted(40, "later", offset=91)) == "later"


SOME_REVIEWS = st.lists(
    st.fixed_dictionaries({"id": st.sampled_from("rs"), "review": st.sampled_from("ABC") | st.none()}), min_size=1
)


@given(st.lists(SOME_REVIEWS, max_size=4))
@example([[{"review": "A"}], [{"review": "B"}, {"review": "A"}]])
@example([[{"review": "A"}], [{"review": "A"}, {"review": "B"}], [{"review": "B"}, {"review": "C"}, {"review": "A"}]])
def test_result_of_a_record_is_independent_of_its_batch(records: list[list[dict[str, Any]]]) -> None:
    batch = [received(offset, reviews) for offset, reviews in enumerate(records)]
    one_by_one: dict[Key, tuple[RecordPosition, ...]] = {}
    for each in batch:
        for submission in submissions(each):
            one_by_one[submission.key] = (*one_by_one.get(submission.key, ()), *submission.positions)
    assert [(each.key, each.positions) for each in submissions(*batch)] == list(one_by_one.items())


def test_last_submission_in_a_record_counts_and_inherits_omitted_fields() -> None:
    first, last = {"title": "Title", "review": "B", "commandId": "c"}, {"review": "A"}
    (submission,) = submissions(received(0, [first, last]))
    assert (submission.review.review, submission.review.title) == ("A", "Title")
    # A command counts once, at its first occurrence.
    (submission,) = submissions(received(0, [first, {**last, "commandId": "c"}]))
    assert (submission.review.review, submission.review.title) == ("B", "Title")


@pytest.mark.parametrize("last", [{"review": "B"}, {}, {"review": None, "rating": None, "title": "Title"}])
@pytest.mark.parametrize(
    "facts",
    [
        {"incentivized": True},
        {"language": "de"},
        {"token": "token"},
        {"source": "import", "writtenDate": "2020-01-01T00:00:00Z"},
        {"images": [str(UUID(int=1))], "pendingImages": 1},
    ],
)
def test_last_submission_in_a_record_inherits_facts(facts: dict[str, Any], last: dict[str, Any]) -> None:
    (alone,), (submission,) = submissions(received(0, [facts])), submissions(received(0, [facts, last]))
    for name in ("incentivized", "language", "token", "source", "written_date", "pending_images", "images"):
        assert getattr(submission.review, name) == getattr(alone.review, name), name
    assert submission.review.review == (last.get("review") or "A")


@pytest.mark.parametrize("last", [[], [str(UUID(int=2))]])
def test_images_that_are_rebuilt_are_not_inherited_with_other_images(last: list[str]) -> None:
    first = {"images": [str(UUID(int=1))], "pendingImages": 1}
    (submission,) = submissions(received(0, [first, {"review": "B", "images": last}]))
    assert not submission.review.pending_images


def test_last_of_equal_texts_in_a_record_gives_its_facts() -> None:
    first, last = {"incentivized": True, "language": "en"}, {"incentivized": False, "source": "import"}
    (submission,) = submissions(received(0, [first, last]))
    assert (submission.review.incentivized, submission.review.language) == (False, "en")
    assert submission.is_import
    # The message is the same as without the facts.
    assert submission.key == submissions(received(0, [{}]))[0].key


def test_commands_of_a_record_keep_their_outcomes() -> None:
    for reviews, answered in (
        ([{"commandId": "c"}, {}], "c"),
        ([{}, {"commandId": "c"}], "c"),
        ([{"commandId": "c"}, {"commandId": "d"}], "c"),
        ([{"commandId": "c"}, {"review": "B", "commandId": "d"}], "d"),
        # An outcome that is known from an earlier record doesn't stop an edit.
        ([{"commandId": "c"}, {"review": "B"}], None),
    ):
        (submission,) = submissions(received(0, reviews))
        assert submission.review.command_id == answered
    (submission,) = submissions(received(0, [{"commandId": "c"}, {"commandId": "c", "incentivized": True}]))
    assert not submission.review.incentivized


def partial(offset: int, **fields: Any) -> Received[Sequence[SubmittedReview]]:
    """A record with a submission that omits text and rating."""
    return received(offset, [{"review": None, "rating": None, **fields}])


def test_submissions_of_one_id_in_a_record_complete_each_other() -> None:
    edit = {"review": None, "rating": None, "title": "Corrected"}
    for reviews in ([{}, edit], [edit, {}]):
        (submission,) = submissions(received(0, reviews))
        content = submission.review.content
        assert (content.text, content.rating, content.title) == ("A", 400, "Corrected")
    # The message is the same only if what it adds up to is the same.
    others = [submissions(received(0, [{"review": text}, edit]))[0].key for text in "ABA"]
    assert others[0] == others[2] != others[1]


def test_incomplete_submission_without_a_complete_one_before_it_has_nothing_to_edit() -> None:
    batch = submissions(
        partial(0, title="early"),
        received(1, [{}]),
        partial(2, title="late"),
        partial(3, id="s", title="other"),
    )

    def found(*refused: Submission) -> list[str | None]:
        return [each.review.title for each in with_nothing_to_edit(batch, [other.key for other in refused])]

    assert found() == ["early", "other"]
    assert found(batch[1]) == ["early", "late", "other"]
    assert found(batch[0]) == ["other"]


def test_incomplete_submission_is_never_the_stored_one() -> None:
    """Its record can have the time of the stored one."""
    (stored,), (edit,) = submissions(received(5, [{}])), submissions(partial(5, title="Corrected"))
    assert decide_at(edit, stored.holder) in (None, REPEATED)
    assert decide_at(edit, IdHolder(stored.created)) == ID_TAKEN
    assert edit.edit(Refusal.INCOMPLETE).refusal is None
    with pytest.raises(ValueError, match="review and rating"):
        edit.accepted()


def test_last_submission_in_a_record_inherits_images_unless_it_names_them() -> None:
    first = {"images": [str(UUID(int=1))], "hiddenImages": [str(UUID(int=1))], "source": "import"}
    for fields, expected in (({}, (str(UUID(int=1)),)), ({"images": []}, ()), ({"images": None}, (str(UUID(int=1)),))):
        (submission,) = submissions(received(0, [first, {"review": "B", "source": "import", **fields}]))
        assert submission.review.images == expected
        assert submission.review.hidden_images == (expected or None)
