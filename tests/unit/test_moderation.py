from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.commands import Outcome
from domain.delivery import RecordPosition
from domain.moderation import Moderated, Moderation, ModerationRefusal, ModerationResult, moderate, parked_in_turn
from domain.moderation_rules import RuleOutcome
from domain.ratings import Entity, RatingTally, TallyKey
from domain.reviews import ModerationAction, Review, ReviewStatus, counted, status_after
from domain.reviews_facts import ReasonCode, ReviewImage
from domain.reviews_moderated import ModeratedReview, Restored
from storage.audit import AuditAction

AT = datetime(2026, 1, 1, tzinfo=UTC)
ENTITY = Entity("Product", "p1")


def a_review(status: ReviewStatus = ReviewStatus.NEW, rating: int = 400, store: str | None = "shop") -> ModeratedReview:
    return ModeratedReview(ENTITY, store, rating, status, modified=AT)


def a_command(id: str, action: ModerationAction, offset: int, command_id: str | None = None) -> Moderation:
    return Moderation(id, action, RecordPosition(0, offset, 1_000 + offset), AT, command_id=command_id)


reviews = st.dictionaries(
    st.sampled_from("abc"),
    st.builds(a_review, st.sampled_from(ReviewStatus), st.integers(100, 500), st.sampled_from([None, "shop", "other"])),
)
histories = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(ModerationAction))).map(
    lambda steps: [a_command(id, action, offset) for offset, (id, action) in enumerate(steps)]
)


def tallies_of(reviews: dict[str, ModeratedReview]) -> dict[TallyKey, RatingTally]:
    tallies: dict[TallyKey, RatingTally] = {}
    for review in reviews.values():
        key = TallyKey(review.entity, review.store_id)
        tallies[key] = tallies.get(key, RatingTally()) + counted(review.status, review.rating)
    return {key: tally for key, tally in tallies.items() if tally.count}


def added(tallies: dict[TallyKey, RatingTally], moderated: Moderated) -> dict[TallyKey, RatingTally]:
    keys = tallies.keys() | moderated.tallies.keys()
    total = {k: tallies.get(k, RatingTally()) + moderated.tallies.get(k, RatingTally()) for k in keys}
    return {key: tally for key, tally in total.items() if tally.count}


@pytest.mark.parametrize(
    ("status", "action", "is_hidden"),
    [
        (ReviewStatus.NEW, ModerationAction.APPROVE, True),
        (ReviewStatus.REJECTED, ModerationAction.APPROVE, True),
        (ReviewStatus.APPROVED, ModerationAction.APPROVE, False),
        (ReviewStatus.NEW, ModerationAction.REJECT, False),
        (ReviewStatus.APPROVED, ModerationAction.RESET, False),
    ],
)
def test_approval_hides_images_not_yet_visible(status: ReviewStatus, action: ModerationAction, is_hidden: bool) -> None:
    command = a_command("a", action, 1)
    seen = (ReviewImage("first"), ReviewImage("early", ready_at=command.sent - timedelta(milliseconds=2_001)))
    # The sender's clock may be up to two seconds ahead.
    unseen = (ReviewImage("late", ready_at=command.sent - timedelta(seconds=2)), ReviewImage("b", is_pending=True))
    review = a_review(status)._replace(images=(*seen, *unseen))
    after = moderate([command], {"a": review}).reviews["a"]
    assert after.images == (*seen, *(image._replace(is_hidden=is_hidden, is_unseen=is_hidden) for image in unseen))


@given(reviews, histories)
def test_tallies_follow_the_statuses(before: dict[str, ModeratedReview], history: list[Moderation]) -> None:
    moderated = moderate(history, before)
    assert added(tallies_of(before), moderated) == tallies_of(before | dict(moderated.reviews))


@given(reviews, histories, st.data())
def test_batches_make_no_difference(
    before: dict[str, ModeratedReview], history: list[Moderation], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(history)))
    first = moderate(history[:cut], before)
    between = before | dict(first.reviews)
    second = moderate(history[cut:], between)
    whole = moderate(history, before)
    assert between | dict(second.reviews) == before | dict(whole.reviews)
    assert [*first.outcomes, *second.outcomes] == list(whole.outcomes)


@given(reviews, histories, st.data())
def test_replay_changes_nothing(
    before: dict[str, ModeratedReview], history: list[Moderation], data: st.DataObject
) -> None:
    after = before | dict(moderate(history, before).reviews)
    start = data.draw(st.integers(0, len(history)))
    again = moderate(history[start:], after)
    assert not again.reviews
    assert not again.tallies


def test_answered_command_is_not_applied_again() -> None:
    approve = a_command("a", ModerationAction.APPROVE, 7, command_id="c1")
    moderated = moderate([approve], {"a": a_review()}, answered={("c1", "a")})
    assert moderated.outcomes == [None]
    assert moderated.reviews["a"].status is ReviewStatus.NEW
    assert moderated.reviews["a"].seen.covers(approve.position)


def test_command_repeated_within_a_batch_is_applied_once() -> None:
    history = [
        a_command("a", ModerationAction.APPROVE, 1, command_id="c1"),
        a_command("a", ModerationAction.REJECT, 2),
        a_command("a", ModerationAction.APPROVE, 3, command_id="c1"),
    ]
    moderated = moderate(history, {"a": a_review()})
    assert Counter(moderated.outcomes) == {Outcome.APPLIED: 2, None: 1}
    assert moderated.reviews["a"].status is ReviewStatus.REJECTED


@pytest.mark.parametrize("stores", [None, (), ("shop",), ("other", "shop"), ("other",)])
@pytest.mark.parametrize("store", ["shop", None])
def test_stores_limit_the_reviews_that_may_be_moderated(stores: tuple[str, ...] | None, store: str | None) -> None:
    command = a_command("a", ModerationAction.APPROVE, 0)._replace(stores=stores)
    may = stores is None or store in stores
    assert command.may_touch(store) is may
    moderated = moderate([command], {"a": a_review(store=store)})
    assert moderated.outcomes == [Outcome.APPLIED if may else Outcome.REFUSED]
    assert bool(moderated.reviews) is bool(moderated.tallies) is may


def test_change_records_moderator_time_and_reason() -> None:
    later = AT + timedelta(hours=1)
    reject = a_command("a", ModerationAction.REJECT, 3)._replace(at=later, moderator="mia", reason="Spam")
    before = a_review()
    rejected = moderate([reject], {"a": before}).reviews["a"]
    expected = before._replace(status=ReviewStatus.REJECTED, modified=later, moderator="mia", reason="Spam")
    assert rejected._replace(seen=before.seen) == expected
    again = reject._replace(position=RecordPosition(0, 4, 1_004), moderator="max", reason="Other")
    unchanged = moderate([again], {"a": rejected}).reviews["a"]
    assert unchanged._replace(seen=rejected.seen) == rejected
    assert unchanged.seen.covers(again.position)


def test_reason_code_of_rejection_lasts_until_next_decision() -> None:
    reject = a_command("a", ModerationAction.REJECT, 1)._replace(reason_code=ReasonCode.FAKE)
    rejected = moderate([reject], {"a": a_review()}).reviews
    assert rejected["a"].reason_code is ReasonCode.FAKE
    unchanged = moderate([a_command("a", ModerationAction.REJECT, 2)], rejected).reviews
    assert unchanged["a"].reason_code is ReasonCode.FAKE
    assert moderate([a_command("a", ModerationAction.APPROVE, 3)], unchanged).reviews["a"].reason_code is None


@pytest.mark.parametrize("status", ReviewStatus)
@pytest.mark.parametrize("action", ModerationAction)
def test_decision_settles_reports(status: ReviewStatus, action: ModerationAction) -> None:
    reported = a_review(status)._replace(reports=2)
    first, second = a_command("a", action, 1), a_command("a", ModerationAction.RESET, 2)
    moderated = moderate([first, second], {"a": reported, "b": a_review()})
    assert (moderated.reviews["a"].reports, moderated.settled) == (0, {"a": first})
    assert moderated.before == {"a": reported}
    assert moderate([a_command("b", action, 1)], {"b": a_review()}).settled == {}


def test_refused_and_repeated_commands_settle_no_reports() -> None:
    reported = a_review()._replace(reports=2)
    unexpected = a_command("a", ModerationAction.APPROVE, 1)._replace(expected=ReviewStatus.REJECTED)
    foreign = a_command("a", ModerationAction.APPROVE, 2)._replace(stores=("other",))
    repeat = a_command("a", ModerationAction.APPROVE, 3, command_id="c1")
    moderated = moderate([unexpected, foreign, repeat], {"a": reported}, answered={("c1", "a")})
    assert (moderated.reviews["a"].reports, moderated.settled) == (2, {})


def test_command_about_another_text_is_refused_and_changes_nothing() -> None:
    """So is a repeat of it. The expected status is checked first."""
    approve = a_command("a", ModerationAction.APPROVE, 1, "c")._replace(text_hash="old")
    expecting = a_command("a", ModerationAction.DELETE, 2)._replace(text_hash="old", expected=ReviewStatus.REJECTED)
    repeat = approve._replace(position=RecordPosition(0, 3, 3_000))
    right = a_command("a", ModerationAction.REJECT, 4)._replace(text_hash="new")
    moderated = moderate([approve, expecting, repeat, right], {"a": a_review()._replace(text_hash="new", reports=1)})
    new, rejected = ReviewStatus.NEW, ReviewStatus.REJECTED
    assert moderated.results == [
        ModerationResult(Outcome.REFUSED, ModerationRefusal.TEXT_CHANGED, new, new),
        ModerationResult(Outcome.REFUSED, ModerationRefusal.STATUS_CHANGED, new, new),
        None,
        ModerationResult(Outcome.APPLIED, None, new, rejected),
    ]
    assert (moderated.reviews["a"].status, moderated.settled) == (rejected, {"a": right})


def test_deleted_review_is_not_found_and_answer_key_has_command_and_review() -> None:
    command = a_command("a", ModerationAction.APPROVE, 0, command_id="c1")
    assert command.answer_key == ("c1", "a")
    assert command._replace(command_id=None).answer_key is None
    gone = a_review()._replace(status=None)
    moderated = moderate([command], {"a": gone})
    assert (moderated.outcomes, moderated.reviews, moderated.tallies) == ([Outcome.NOT_FOUND], {}, {})


def test_parked_commands_take_effect_in_order_of_arrival() -> None:
    topic_positions = [(1, 0, 500), (0, 1, 2_000), (0, 2, 1_000), (0, 9, 2_000)]
    kept = [
        a_command("a", ModerationAction.APPROVE, 0)._replace(position=RecordPosition(*place))
        for place in topic_positions
    ]
    first = RecordPosition(3, 0, 100)
    arrived = [kept[3]._replace(arrived=first), kept[0]._replace(arrived=first._replace(offset=1, timestamp=90))]
    assert parked_in_turn([*reversed(arrived), *reversed(kept)]) == [*kept, *arrived]
    of_two = [
        kept[0]._replace(review_id=id, arrived=first._replace(offset=offset))
        for id, offset in (("b", 0), ("d", 1), ("c", 1), ("a", 2))
    ]
    assert parked_in_turn([of_two[3], *of_two[:3]]) == of_two


def test_approval_before_its_topic_grew_precedes_later_rejection() -> None:
    approval, rejection = (
        a_command("a", action, 0)._replace(arrived=place)
        for action, place in (
            (ModerationAction.APPROVE, RecordPosition(3, 5_000, 1_000)),
            (ModerationAction.REJECT, RecordPosition(13, 4, 60_000)),
        )
    )
    assert parked_in_turn([rejection, approval]) == [approval, rejection]
    first = rejection._replace(arrived=RecordPosition(0, 4, 60_000))
    assert parked_in_turn([first, approval]) == [approval, first]


steps = st.tuples(
    st.sampled_from("ab"),
    st.sampled_from(ModerationAction),
    st.none() | st.sampled_from(ReviewStatus),
    st.text("xy", max_size=1),
)


@given(st.dictionaries(st.sampled_from("ab"), st.builds(a_review, st.sampled_from(ReviewStatus))), st.lists(steps))
def test_command_with_another_expected_status_is_refused_with_current_status(
    before: dict[str, ModeratedReview], history: list[tuple[str, ModerationAction, ReviewStatus | None, str]]
) -> None:
    commands = [
        a_command(id, action, offset)._replace(expected=expected, moderator=moderator)
        for offset, (id, action, expected, moderator) in enumerate(history)
    ]
    now: dict[str, tuple[ReviewStatus | None, str | None]] = {id: (r.status, r.moderator) for id, r in before.items()}
    moderated = moderate(commands, before)
    for command, result in zip(commands, moderated.results, strict=True):
        status, moderator = now.get(command.review_id, (None, None))
        after = status_after(status or ReviewStatus.NEW, command.action)
        if status is None:
            assert result == ModerationResult(Outcome.NOT_FOUND)
        elif command.expected not in (None, status):
            refused = ModerationResult(Outcome.REFUSED, ModerationRefusal.STATUS_CHANGED, status, status, moderator)
            assert result == refused
        elif status is after:
            assert result == ModerationResult(Outcome.UNCHANGED, None, status, status, moderator)
        else:
            now[command.review_id] = after, command.moderator
            assert result == ModerationResult(Outcome.APPLIED, None, status, after, command.moderator)
    assert {id: review.status for id, review in {**before, **moderated.reviews}.items()} == {
        id: status for id, (status, _) in now.items()
    }


def test_redelivered_refused_command_is_not_decided_again() -> None:
    approve = a_command("a", ModerationAction.APPROVE, 1, command_id="c1")._replace(expected=ReviewStatus.NEW)
    first = moderate([approve], {"a": a_review(ReviewStatus.REJECTED)})
    assert first.outcomes == [Outcome.REFUSED]
    assert first.reviews["a"].seen.covers(approve.position)
    assert first.tallies == {}
    reset = moderate([a_command("a", ModerationAction.RESET, 2)], first.reviews)
    again = approve._replace(position=RecordPosition(0, 3, 1_003))
    assert moderate([approve, again], reset.reviews, answered={("c1", "a")}).outcomes == [None, None]


@pytest.mark.parametrize("action", [each for each in ModerationAction if each is not ModerationAction.RESTORE])
@pytest.mark.parametrize("before", ReviewStatus)
def test_action_leads_to_its_status(before: ReviewStatus, action: ModerationAction) -> None:
    status = status_after(before, action)
    after = moderate([a_command("a", action, 0)], {"a": a_review(before)})
    assert after.reviews["a"].status is status
    assert after.outcomes == [Outcome.UNCHANGED if before is status else Outcome.APPLIED]


def test_audit_log_knows_every_action() -> None:
    """The consumers turn actions and outcomes into those of the log by their values."""
    assert {*ModerationAction, *RuleOutcome} <= {*AuditAction}


@pytest.mark.parametrize(
    ("held", "flags", "may_be_planned"), [(False, (), False), (True, (), True), (False, ("low",), True)]
)
def test_approval_of_held_or_flagged_review_may_be_planned(
    held: bool, flags: tuple[str, ...], may_be_planned: bool
) -> None:
    assert a_review()._replace(is_held=held, flags=flags).may_be_planned is may_be_planned
    whole = Review("r", ENTITY, None, None, None, None, None, "Good", 400, AT, AT, is_held=held, flags=flags)
    assert whole.may_be_planned is may_be_planned


def test_only_a_decision_ends_the_plan_of_a_review() -> None:
    held, settled = a_review()._replace(is_held=True), Restored(ReviewStatus.NEW, AT)
    reset, approve = ModerationAction.RESET, ModerationAction.APPROVE
    commands = [
        a_command("approved", approve, 1),
        a_command("kept", reset, 2),
        a_command("repeated", approve, 3)._replace(restored=settled),
        a_command("expected", approve, 4)._replace(expected=ReviewStatus.REJECTED),
        a_command("plain", approve, 5),
        a_command("gone", approve, 6),
        a_command("reported", reset, 7),
    ]
    before = {each.review_id: held for each in commands[:4]} | {"plain": a_review()}
    before["kept"] = held._replace(is_held=False, flags=("few-stars",))
    before["reported"] = a_review()._replace(reports=1)
    moderated = moderate(commands, before)
    assert moderated.ended_plans == {"approved", "kept"}
    assert moderated.kept_plans == {
        id: (before[id].seen, before[id].seen.after(command.position))
        for id, command in (("repeated", commands[2]), ("expected", commands[3]))
    }
    assert [each.review_id for each in moderated.audited({"approved"})] == ["approved", "plain", "reported"]
    assert [each.review_id for each in moderated.audited({"kept"})] == ["approved", "kept", "plain", "reported"]


def test_end_of_plan_of_decided_review_is_not_audited() -> None:
    flagged = a_review(ReviewStatus.APPROVED)._replace(flags=("few-stars",))
    moderated = moderate([a_command("a", ModerationAction.APPROVE, 1)], {"a": flagged})
    assert (moderated.ended_plans, moderated.audited({"a"})) == ({"a"}, [])


def test_repeat_is_no_decision() -> None:
    history = [a_command("a", ModerationAction.APPROVE, 1), a_command("a", ModerationAction.APPROVE, 1)]
    moderated = moderate(history, {"a": a_review()})
    assert [(each, result.outcome) for each, result in moderated.decided] == [(history[0], Outcome.APPLIED)]


def test_changes_that_cancel_out_change_no_tally() -> None:
    history = [a_command("a", ModerationAction.APPROVE, 1), a_command("a", ModerationAction.RESET, 2)]
    assert moderate(history, {"a": a_review()}).tallies == {}
