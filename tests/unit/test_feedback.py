"""Replies, votes and reports: the rules, and the codec of their commands."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from domain.commands import CommandMark, Outcome
from domain.delivery import RecordPosition
from domain.feedback import (
    AppliedFeedback,
    Feedback,
    FeedbackAction,
    FeedbackRefusal,
    FeedbackResult,
    KnownFeedback,
    Origin,
    ReviewFeedback,
    Vote,
    VoteKey,
    apply_feedback,
    responses_after_vote,
    visitor_id,
    with_own_reports,
)
from domain.feedback_reports import Report, ReportReason, Settlement
from domain.ratings import Entity
from domain.reviews import ModerationAction
from domain.reviews_facts import Reply, Responses
from domain.timestamps import milliseconds
from messaging.feedback import FEEDBACK_COMMAND, feedback_value
from messaging.feedback import REPORT as GIVEN_REPORT
from messaging.feedback_parked import feedback_from, parked_feedback

AT = datetime(2026, 1, 1, tzinfo=UTC)
REVIEW = ReviewFeedback(Entity("Product", "p1"), "shop")
KEY = VoteKey("a", "u")


def place(offset: int, partition: int = 0, timestamp: int | None = None) -> RecordPosition:
    return RecordPosition(partition, offset, 1_000 + offset if timestamp is None else timestamp)


def a_vote(helpful: bool | None, offset: int, command_id: str | None = None, *, review: str = "a") -> Feedback:
    action = FeedbackAction.REMOVE_VOTE if helpful is None else FeedbackAction.VOTE
    return Feedback(review, action, Origin(place(offset)), AT, user_id="u", helpful=helpful, command_id=command_id)


def a_reply(text: str | None, offset: int, command_id: str | None = None, author: str | None = None) -> Feedback:
    at = AT + timedelta(hours=offset)
    if text is None:
        return Feedback("a", FeedbackAction.REMOVE_REPLY, Origin(place(offset)), at, command_id=command_id)
    reply = Reply(text, author, at, at)
    return Feedback("a", FeedbackAction.REPLY, Origin(place(offset)), at, reply=reply, command_id=command_id)


def a_report(id: str, offset: int, command_id: str | None = None) -> Feedback:
    report = Report(id, "a", ReportReason.SPAM, "An advertisement", AT)
    return Feedback("a", FeedbackAction.REPORT, Origin(place(offset)), AT, report=report, command_id=command_id)


def of_review(command: Feedback, review: str) -> Feedback:
    assert command.report
    return replace(command, review_id=review, report=command.report._replace(review_id=review))


def apply(*commands: Feedback, **known: Any) -> AppliedFeedback:
    return apply_feedback(commands, KnownFeedback(**{"reviews": {"a": REVIEW}, **known}))


def outcomes(result: AppliedFeedback) -> list[Outcome | None]:
    return [each.outcome if each else None for each in result.results]


votes = st.lists(st.tuples(st.sampled_from("uvw"), st.sampled_from([True, False, None]), st.booleans()), max_size=12)


@given(votes, st.data())
def test_last_vote_of_each_voter_counts_despite_redelivery(
    cast_votes: list[tuple[str, bool | None, bool]], data: st.DataObject
) -> None:
    commands = [replace(a_vote(helpful, n), user_id=voter) for n, (voter, helpful, _) in enumerate(cast_votes)]
    review, stored = REVIEW, dict[VoteKey, Vote]()
    delivered = 0
    while delivered < len(commands):
        start = data.draw(st.integers(0, delivered))
        delivered = data.draw(st.integers(delivered + 1, len(commands)))
        result = apply_feedback(commands[start:delivered], KnownFeedback({"a": review}, stored))
        review, stored = result.reviews.get("a", review), stored | dict(result.votes)
    last = {voter: helpful for voter, helpful, _ in cast_votes}
    assert review.responses == Responses(list(last.values()).count(True), list(last.values()).count(False))
    assert {key.user_id: vote.helpful for key, vote in stored.items()} == last


@pytest.mark.parametrize("before", [True, False, None])
@pytest.mark.parametrize("after", [True, False, None])
def test_vote_counts_once(before: bool | None, after: bool | None) -> None:
    expected = Responses(4 - (before is True) + (after is True), 6 - (before is False) + (after is False), 9)
    assert responses_after_vote(Responses(4, 6, 9), before, after) == expected
    stored = {KEY: Vote(before, place(0))}
    result = apply(a_vote(after, 1), reviews={"a": replace(REVIEW, responses=Responses(4, 6, 9))}, votes=stored)
    assert outcomes(result) == [Outcome.UNCHANGED if before is after else Outcome.APPLIED]
    assert result.votes == {KEY: Vote(after, place(1))}
    assert bool(result.reviews) is (before is not after)


def test_counters_are_never_negative() -> None:
    assert responses_after_vote(Responses(0, 0), True, False) == Responses(0, 1)
    assert responses_after_vote(Responses(0, 0), False, True) == Responses(1, 0)


@pytest.mark.parametrize(
    ("position", "counts"),
    [
        (place(5), False),
        (place(4), False),
        (place(6), True),
        (place(6, timestamp=1), True),  # offsets determine the order within a partition
        (place(5, timestamp=2_000), True),  # the topic was recreated
        (place(9, partition=1, timestamp=1_004), False),
        (place(1, partition=1, timestamp=1_005), True),
    ],
)
def test_older_record_changes_nothing(position: RecordPosition, counts: bool) -> None:
    vote = replace(a_vote(False, 0), origin=Origin(position))
    result = apply(vote, votes={KEY: Vote(True, place(5))})
    assert outcomes(result) == ([Outcome.APPLIED] if counts else [None])
    assert bool(result.votes) is counts
    reply = replace(a_reply("new", 0), origin=Origin(position))
    replied = apply(reply, reviews={"a": replace(REVIEW, replied=place(5))})
    assert outcomes(replied) == ([Outcome.APPLIED] if counts else [None])
    assert bool(replied.reviews) is counts


def test_imported_reply_does_not_replace_a_newer_one() -> None:
    here = Reply("here", "eve", AT, AT + timedelta(hours=3))
    known = {"a": replace(REVIEW, reply=here, replied=place(3))}
    old, new = (Reply(text, None, AT, AT + timedelta(hours=hours)) for text, hours in (("old", 2), ("new", 4)))
    older, newer = (replace(a_reply(each.text, 9), reply=each) for each in (old, new))
    assert outcomes(apply(older, reviews=known)) == [Outcome.UNCHANGED]
    assert apply(older, reviews=known).reviews["a"] == replace(known["a"], replied=place(9))
    assert apply(newer, reviews=known).reviews["a"].reply == new
    # A command from a host with a slow clock doesn't count as imported.
    slow = replace(older, at=old.modified)
    assert apply(slow, reviews=known).reviews["a"].reply == old


def test_newer_imported_reply_brings_its_dates() -> None:
    old, anew = (Reply("Thanks", None, AT + timedelta(hours=n), AT + timedelta(hours=n)) for n in (1, 2))
    edited = Reply("Thank you", None, AT + timedelta(hours=2), AT + timedelta(hours=3))
    for first, second in ((old, anew), (old, edited), (anew, edited)):
        older, newer = (replace(a_reply(each.text, 9), reply=each) for each in (first, second))
        known = {"a": replace(REVIEW, reply=first, replied=place(3))}
        result = apply(newer, reviews=known)
        assert (outcomes(result), result.reviews["a"].reply) == ([Outcome.APPLIED], second)
        again = [replace(each, origin=Origin(place(10 + n))) for n, each in enumerate((newer, older))]
        assert outcomes(apply(*again, reviews=result.reviews)) == [Outcome.UNCHANGED] * 2
        assert apply(*again, reviews=result.reviews).reviews["a"].reply == second


def test_imported_reply_does_not_restore_a_removed_one() -> None:
    removed = place(9, timestamp=milliseconds(AT + timedelta(hours=3)))
    known = {"a": replace(REVIEW, replied=removed)}
    old, new = (Reply(text, None, AT, AT + timedelta(hours=hours)) for text, hours in (("old", 2), ("new", 4)))
    older, newer = (
        replace(a_reply(each.text, 9), reply=each, origin=Origin(place(10, timestamp=removed.timestamp + 1)))
        for each in (old, new)
    )
    assert outcomes(apply(older, reviews=known)) == [Outcome.UNCHANGED]
    assert not apply(older, reviews=known).reviews
    assert apply(newer, reviews=known).reviews["a"].reply == new
    assert apply(older).reviews["a"].reply == old
    # A command from a host with a slow clock doesn't count as imported.
    assert apply(replace(older, at=old.modified), reviews=known).reviews["a"].reply == old


def test_newer_of_two_imported_replies_counts_after_a_removal_whichever_is_first() -> None:
    hours = [milliseconds(AT + timedelta(hours=hour)) for hour in range(8)]
    known = {"a": replace(REVIEW, replied=place(3, timestamp=hours[3]))}
    old, new = (
        replace(
            a_reply(f"of hour {written}", 9),
            reply=Reply(f"of hour {written}", None, AT, AT + timedelta(hours=written)),
            origin=Origin(place(imported, timestamp=hours[imported])),
        )
        for written, imported in ((2, 6), (4, 7))
    )
    result = apply(old, new, reviews=known)
    assert outcomes(result) == [Outcome.UNCHANGED, Outcome.APPLIED]
    assert result.reviews["a"].reply == new.reply
    assert outcomes(apply(new, replace(old, origin=Origin(place(8, timestamp=hours[7]))), reviews=known)) == [
        Outcome.APPLIED,
        Outcome.UNCHANGED,
    ]


def test_marks_never_move_back_in_time() -> None:
    late = replace(a_vote(False, 0), origin=Origin(place(6, timestamp=1)))
    assert apply(late, votes={KEY: Vote(True, place(5))}).votes[KEY].position == place(6, timestamp=1_005)
    reply = replace(a_reply("x", 0), origin=Origin(place(6, timestamp=1)))
    known = {"a": replace(REVIEW, replied=place(5))}
    assert apply(reply, reviews=known).reviews["a"].replied == place(6, timestamp=1_005)


def test_repeated_command_only_moves_the_marks() -> None:
    first, other, again = a_vote(True, 1, "c1"), a_vote(False, 2, "c2"), a_vote(True, 3, "c1")
    result = apply(first, other, again)
    assert outcomes(result) == [Outcome.APPLIED, Outcome.APPLIED, None]
    assert result.votes == {KEY: Vote(False, place(3))}
    assert result.reviews["a"].responses == Responses(0, 1)
    unknown = apply(again, answered={("c1", "a")})
    assert (unknown.results, unknown.votes, unknown.reviews) == ([None], {}, {})
    replies = apply(a_reply("one", 1, "c1"), a_reply("two", 2), a_reply("one", 3, "c1"))
    assert outcomes(replies) == [Outcome.APPLIED, Outcome.APPLIED, None]
    assert replies.reviews["a"].reply == Reply("two", None, AT + timedelta(hours=1), AT + timedelta(hours=2))
    assert replies.reviews["a"].replied == place(3)


def test_command_on_several_reviews_is_no_repeat() -> None:
    result = apply(a_vote(True, 1, "c"), a_vote(True, 2, "c", review="b"), reviews={"a": REVIEW, "b": REVIEW})
    assert outcomes(result) == [Outcome.APPLIED, Outcome.APPLIED]


def test_edited_reply_keeps_its_creation_date() -> None:
    first = apply(a_reply("one", 1)).reviews
    assert first["a"].reply == Reply("one", None, AT + timedelta(hours=1), AT + timedelta(hours=1))
    same = apply(a_reply("one", 2), reviews=first)
    assert outcomes(same) == [Outcome.UNCHANGED]
    assert (same.reviews["a"].reply, same.reviews["a"].replied) == (first["a"].reply, place(2))
    signed = apply(a_reply("one", 3, author="Shop"), reviews=same.reviews)
    assert outcomes(signed) == [Outcome.APPLIED]
    assert signed.reviews["a"].reply == Reply("one", "Shop", AT + timedelta(hours=1), AT + timedelta(hours=3))
    removed = apply(a_reply(None, 4), reviews=signed.reviews)
    assert (outcomes(removed), removed.reviews["a"].reply) == ([Outcome.APPLIED], None)
    nothing = apply(a_reply(None, 5), reviews=removed.reviews)
    assert outcomes(nothing) == [Outcome.UNCHANGED]
    anew = apply(a_reply("two", 6), reviews=nothing.reviews).reviews["a"].reply
    assert anew == Reply("two", None, AT + timedelta(hours=6), AT + timedelta(hours=6))


def test_report_counts_once() -> None:
    result = apply(a_report("r1", 1), a_report("r1", 2), a_report("r2", 3), a_report("r3", 4, "c"), reports={"r2"})
    assert outcomes(result) == [Outcome.APPLIED, Outcome.UNCHANGED, Outcome.UNCHANGED, Outcome.APPLIED]
    assert [report.id for report in result.reports] == ["r1", "r3"]
    assert result.reviews["a"].responses == Responses(0, 0, 2)
    repeat = apply(a_report("r4", 5, "c"), answered={("c", "a")})
    assert (outcomes(repeat), repeat.reports, repeat.reviews) == ([None], [], {})
    again = apply(a_report("r3", 6, "c"), a_report("r3", 7, "d"), answered={("c", "a")}, reports={"r3"})
    assert (outcomes(again), again.reports, again.reviews) == ([None, Outcome.UNCHANGED], [], {})


def settled_report(offset: int, *, by: str = "eve") -> Feedback:
    command = a_report("r", offset)
    assert command.report is not None
    return replace(command, report=command.report._replace(settled=Settlement(ModerationAction.REJECT, by, AT)))


def test_imported_settlement_settles_an_open_report() -> None:
    known: dict[str, Any] = {"reviews": {"a": replace(REVIEW, responses=Responses(4, 6, 2))}, "reports": {"r"}}
    result = apply(settled_report(1), settled_report(2, by="bob"), a_report("r", 3), **known, open_reports={"r"})
    assert outcomes(result) == [Outcome.APPLIED, Outcome.UNCHANGED, Outcome.UNCHANGED]
    assert (result.reports, result.settled) == ([], [settled_report(1).report])
    assert result.reviews["a"].responses == Responses(4, 6, 1)
    assert [each and each.is_settlement for each in result.results] == [True, False, False]
    # A decision made here stays.
    result = apply(settled_report(1), **known)
    assert (outcomes(result), result.settled, result.reviews) == ([Outcome.UNCHANGED], [], {})
    # In one batch with the report itself.
    result = apply(a_report("r", 1), settled_report(2), a_report("r", 3))
    assert outcomes(result) == [Outcome.APPLIED, Outcome.APPLIED, Outcome.UNCHANGED]
    assert (result.reports, result.settled) == ([settled_report(2).report], [])
    assert result.reviews["a"].responses == Responses(0, 0, 0)


def test_reports_about_two_reviews_can_have_the_same_id() -> None:
    first, second, unknown = (of_review(a_report("17", n), review) for n, review in enumerate("abx"))

    def ids(*commands: Feedback, **owners: str) -> list[str]:
        found = with_own_reports(commands, {"a", "b"}, owners)
        return [each.report.id for each in found if each.report]

    assert first.report is not None
    assert second.report is not None
    of_a, of_b = first.report.other_id, second.report.other_id
    assert len({of_a, of_b, "17"}) == 3
    assert ids(unknown, first, second, first, second) == ["17", "17", of_b, "17", of_b]
    # Redelivered apart, each keeps its id.
    stored = {"17": "a", of_b: "b"}
    assert ids(second, **stored) == ids(second, **{of_b: "b"}) == [of_b]
    assert ids(first, **stored) == ["17"]
    assert ids(second, **{"17": "b"}) == ["17"]
    assert ids(first, **{"17": "b"}) == [of_a]


EACH: Sequence[Feedback] = (a_vote(True, 1), a_vote(None, 1), a_reply("x", 1), a_reply(None, 1), a_report("r", 1))


@pytest.mark.parametrize("command", EACH, ids=lambda command: command.action.value)
@pytest.mark.parametrize("stores", [None, (), ("shop",), ("other",)])
def test_feedback_needs_access_to_the_store(command: Feedback, stores: tuple[str, ...] | None) -> None:
    result = apply(replace(command, stores=stores))
    if stores is None or "shop" in stores:
        assert outcomes(result) in ([Outcome.APPLIED], [Outcome.UNCHANGED])
        assert result.results[0] is not None
        assert result.results[0].review == result.reviews.get("a", REVIEW)
    else:
        assert result.results == [FeedbackResult(Outcome.REFUSED, FeedbackRefusal.OTHER_STORE)]
        assert (result.reviews, result.votes, result.reports) == ({}, {}, [])


@pytest.mark.parametrize("command", EACH, ids=lambda command: command.action.value)
def test_feedback_on_a_changed_text_is_refused(command: Feedback) -> None:
    known = {"a": replace(REVIEW, text_hash="0a")}
    for text in (None, "0a"):
        assert outcomes(apply(replace(command, text_hash=text), reviews=known)) in (
            [Outcome.APPLIED],
            [Outcome.UNCHANGED],
        )
    result = apply(replace(command, text_hash="0b"), reviews=known)
    assert result.results == [FeedbackResult(Outcome.REFUSED, FeedbackRefusal.TEXT_CHANGED)]
    assert (result.reviews, result.votes, result.reports) == ({}, {}, [])


@pytest.mark.parametrize("command", EACH, ids=lambda command: command.action.value)
def test_feedback_on_a_missing_review_is_not_found(command: Feedback) -> None:
    result = apply(replace(command, review_id="gone"))
    assert result.results == [FeedbackResult(Outcome.NOT_FOUND)]
    assert (result.reviews, result.votes, result.reports) == ({}, {}, [])


def test_refused_feedback_does_not_affect_the_rest() -> None:
    gone, foreign = replace(a_vote(True, 1), review_id="gone"), replace(a_vote(True, 2), stores=("other",))
    result = apply(gone, a_reply("x", 3), foreign, a_vote(True, 4))
    assert outcomes(result) == [Outcome.NOT_FOUND, Outcome.APPLIED, Outcome.REFUSED, Outcome.APPLIED]


@pytest.mark.parametrize(("settled", "open"), [(None, 3), (Settlement(ModerationAction.REJECT, "eve", AT), 2)])
def test_only_open_reports_count(settled: Settlement | None, open: int) -> None:
    command = a_report("r1", 1)
    assert command.report is not None
    known = replace(REVIEW, responses=Responses(4, 6, 2))
    result = apply(replace(command, report=command.report._replace(settled=settled)), reviews={"a": known})
    assert result.reviews.get("a", known).responses == Responses(4, 6, open)
    assert [report.settled for report in result.reports] == [settled]


def test_visitor_id_is_stable_and_specific_to_the_store() -> None:
    # Computed with printf 'shop\n0b5e' | sha256sum | cut -c1-32.
    assert visitor_id("shop", "0b5e") == "visitor:1116ca17932e9a5b66a86aa74be071fe"
    assert len({visitor_id("shop", "0b5e"), visitor_id("other", "0b5e"), visitor_id("shop", "77aa")}) == 3


texts = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
moments = st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC)).map(
    lambda at: at.replace(microsecond=at.microsecond // 1_000 * 1_000)
)
commands = st.one_of(
    st.fixed_dictionaries(
        {"action": st.just("reply"), "text": texts},
        optional={"author": texts, "moderator": texts, "createdDate": moments, "modifiedDate": moments},
    ),
    st.fixed_dictionaries({"action": st.just("remove-reply")}, optional={"moderator": texts}),
    st.fixed_dictionaries({"action": st.just("vote"), "userId": texts, "helpful": st.booleans()}),
    st.fixed_dictionaries({"action": st.just("remove-vote"), "userId": texts}),
    st.fixed_dictionaries(
        {
            "action": st.just("report"),
            "reason": st.sampled_from(ReportReason),
            "explanation": texts,
            "goodFaith": st.just(True),
        },
        optional={
            **{"name": texts | st.just(""), "email": st.just("berta@example.org"), "userId": texts},
            **{"reportedDate": moments, "reportId": texts},
        },
    ),
    st.fixed_dictionaries(
        {
            "action": st.just("report"),
            "reason": st.sampled_from(ReportReason),
            "explanation": st.just("") | texts,
            "goodFaith": st.just(True),
            "reportedDate": moments,
        },
        optional={
            "settled": st.fixed_dictionaries(
                {"action": st.sampled_from(ModerationAction), "at": moments}, optional={"moderator": texts}
            )
        },
    ),
)
about = st.fixed_dictionaries(
    {"reviewId": texts},
    optional={"commandId": texts, "stores": st.lists(texts, max_size=2), "textHash": st.just("0a" * 32)},
)
origins = st.builds(
    Origin,
    st.builds(RecordPosition, st.integers(0, 9), st.integers(0, 2**60), st.integers(0, 4_000_000_000_000)),
    st.none() | st.builds(CommandMark, st.integers(1, 1_000), *[st.sampled_from(["", "0a"])] * 2),
    st.none() | texts,
    st.just("") | texts,
)


def as_json(value: Any) -> str:
    return json.dumps(value, default=lambda at: at.isoformat())


@given(commands, about, origins)
@pytest.mark.long
def test_feedback_round_trips_as_message_and_document(
    command: dict[str, Any], about: dict[str, Any], origin: Origin
) -> None:
    feedback = FEEDBACK_COMMAND.validate_json(as_json({**command, **about})).feedback(origin)
    assert feedback.position == origin.position
    assert FEEDBACK_COMMAND.validate_json(as_json(feedback_value(feedback))).feedback(origin) == feedback
    document = {"_id": "1", "parkedAt": datetime.now(UTC), **parked_feedback(feedback)}
    assert feedback_from(bson.decode(bson.encode(document))) == feedback
    assert "textHash" not in document["command"]


REPORT = {"action": "report", "reviewId": "a", "reason": "spam", "explanation": "No", "goodFaith": True}


@pytest.mark.parametrize(
    ("command", "place"),
    [
        ({**REPORT, "goodFaith": False}, "goodFaith"),
        ({**REPORT, "goodFaith": 1}, "goodFaith"),
        ({**REPORT, "goodFaith": 1.0}, "goodFaith"),
        ({**REPORT, "goodFaith": ""}, "goodFaith"),
        ({name: value for name, value in REPORT.items() if name != "goodFaith"}, "goodFaith"),
        ({**REPORT, "reason": "low-rating"}, "reason"),
        ({**REPORT, "explanation": " "}, "explanation"),
        ({**REPORT, "explanation": "\u200b"}, "explanation"),
        ({**REPORT, "explanation": "x" * 5_001}, "explanation"),
        ({**REPORT, "email": "nowhere"}, "email"),
        ({"action": "reply", "reviewId": "a", "text": "x" * 5_001}, "text"),
        ({"action": "reply", "reviewId": "a", "text": "\n"}, "text"),
        ({"action": "reply", "reviewId": "a", "text": "\u200b"}, "text"),
        ({"action": "vote", "reviewId": "a", "userId": "", "helpful": True}, "userId"),
        ({"action": "vote", "reviewId": "a", "userId": "u", "helpful": None}, "helpful"),
    ],
)
def test_invalid_feedback_is_refused(command: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError) as refused:
        FEEDBACK_COMMAND.validate_json(json.dumps(command))
    assert {error["loc"][-1] for error in refused.value.errors()} == {place}


def test_report_id_depends_on_command_event_or_content() -> None:
    def id_of(identity: str | None = None, **fields: Any) -> str:
        command = FEEDBACK_COMMAND.validate_json(json.dumps({**REPORT, **fields}))
        report = command.feedback(Origin(place(1), identity=identity)).report
        assert report is not None
        return report.id

    assert id_of() == id_of()
    assert id_of("e1") == id_of("e1", explanation="Other words")
    assert id_of("e1", commandId="c") == id_of("e2", commandId="c")
    others = {id_of(name="Berta"), id_of(email="b@example.org"), id_of(userId="u"), id_of(reviewId="b")}
    others |= {id_of(), id_of("e1"), id_of("e2"), id_of(commandId="c"), id_of(commandId="c", reviewId="b")}
    assert len(others) == 9


def test_reporter_address_is_stored_without_name() -> None:
    for written, kept in (("", None), ("Berta Holm <berta@example.org>", "berta@example.org")):
        report = (
            FEEDBACK_COMMAND.validate_json(json.dumps({**REPORT, "email": written})).feedback(Origin(place(1))).report
        )
        assert report is not None
        assert report.email == kept


def test_address_length_is_limited_as_encoded() -> None:
    fields = {name: REPORT[name] for name in ("reason", "explanation", "goodFaith")}
    address = f"{'a' * 40}@{'ü' * 50}.{'ü' * 50}.{'ü' * 50}.{'ü' * 50}.example"
    assert len(address) <= 254
    with pytest.raises(ValidationError, match="at most 254"):
        GIVEN_REPORT.validate_python({**fields, "email": address}, strict=False)
