"""Moderation history that comes with an import."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.commands import Outcome
from domain.delivery import RecordPosition
from domain.moderation import Moderation, ModerationRefusal, ModerationResult, moderate
from domain.ratings import Entity, RatingTally, TallyKey
from domain.reviews import ModerationAction, ReviewStatus
from domain.reviews_facts import ReasonCode, Source
from domain.reviews_moderated import ModeratedReview, Restored
from messaging.events import MODERATION_EVENTS, statement_of_reasons
from storage.database import Document
from storage.reviews.documents import moderated_fields, moderated_from, restored_fields

NOW = datetime(2026, 6, 1, tzinfo=UTC)
WRITTEN = NOW - timedelta(days=100)
DECIDED = WRITTEN + timedelta(days=1)
ENTITY = Entity("Product", "p1")
IMPORTED = ModeratedReview(ENTITY, "s", 400, ReviewStatus.NEW, modified=WRITTEN, imported=WRITTEN, reports=2)

pasts = st.builds(
    Restored,
    st.sampled_from(ReviewStatus),
    st.integers(0, 2).map(lambda days: DECIDED + timedelta(days=days)),
    st.none() | st.lists(st.sampled_from(("links", "words")), unique=True).map(tuple),
    st.sampled_from((Source.IMPORT, Source.IMPORT, Source.API)),
    st.none() | st.just("en"),
    st.booleans(),
)


def command(offset: int = 0, status: ReviewStatus = ReviewStatus.APPROVED, at: datetime = DECIDED) -> Moderation:
    position = RecordPosition(0, offset, 1_000 + offset)
    restored = Restored(status, at, ("links",), Source.IMPORT, "en", is_verified=True)
    return Moderation("a", ModerationAction.RESTORE, position, NOW, moderator="eve", reason="Why", restored=restored)


@pytest.mark.parametrize("status", ReviewStatus)
def test_review_gets_its_imported_state(status: ReviewStatus) -> None:
    code = ReasonCode.SPAM if status is ReviewStatus.REJECTED else None
    moderated = moderate([command(status=status)._replace(reason_code=code)], {"a": IMPORTED})
    after = moderated.reviews["a"]
    assert (after.status, after.modified, after.moderator, after.reason) == (status, DECIDED, "eve", "Why")
    assert after.reason_code is code
    assert after.restored == Restored(status, DECIDED, ("links",), Source.IMPORT, "en", True)
    assert after.reports == 2
    assert not moderated.settled
    is_approved = status is ReviewStatus.APPROVED
    assert moderated.tallies.get(TallyKey(ENTITY, "s"), RatingTally()) == RatingTally.of([400] if is_approved else [])
    assert moderated.outcomes == [Outcome.UNCHANGED if status is ReviewStatus.NEW else Outcome.APPLIED]


def test_repeat_changes_nothing() -> None:
    first = moderate([command()], {"a": IMPORTED}).reviews["a"]
    again = moderate([command(1)], {"a": first})
    assert again.outcomes == [Outcome.UNCHANGED]
    assert again.reviews["a"]._replace(seen=first.seen) == first
    assert not again.tallies
    assert moderate([command(0)], {"a": first}).results == [None]


def test_local_decision_since_the_import_is_kept() -> None:
    here = IMPORTED._replace(status=ReviewStatus.REJECTED, modified=WRITTEN + timedelta(milliseconds=1))
    moderated = moderate([command()], {"a": here})
    assert moderated.outcomes == [Outcome.UNCHANGED]
    assert moderated.reviews["a"]._replace(seen=here.seen) == here
    assert moderated.reviews["a"].seen.covers(command().position)
    # Even if the source system changed it later.
    assert moderate([command(at=NOW)], {"a": here}).reviews["a"].status is ReviewStatus.REJECTED


def test_import_precedes_the_history_it_brings() -> None:
    late = IMPORTED._replace(modified=NOW, imported=NOW)
    assert moderate([command()], {"a": late}).reviews["a"].modified == DECIDED
    changed = late._replace(modified=NOW + timedelta(milliseconds=1))
    assert moderate([command()], {"a": changed}).reviews["a"].restored is None


@pytest.mark.parametrize("source", [None, Source.IMPORT, Source.API])
@pytest.mark.parametrize("later", [-1, 0, 1])
def test_newer_one_of_two_histories_wins(source: Source | None, later: int) -> None:
    past = Restored(ReviewStatus.APPROVED, DECIDED, source=source)
    after = moderate([command()._replace(restored=past)], {"a": IMPORTED}).reviews["a"]
    assert after.restored_at == DECIDED
    at = DECIDED + timedelta(milliseconds=later)
    again = moderate([command(1, ReviewStatus.REJECTED, at)], {"a": after}).reviews["a"]
    assert again.status is (ReviewStatus.REJECTED if later > 0 else ReviewStatus.APPROVED)
    assert again.restored_at == again.modified == max(at, DECIDED)
    # A local decision made since then wins over any imported history.
    rejection = Moderation("a", ModerationAction.REJECT, RecordPosition(0, 1, 9), DECIDED + timedelta(milliseconds=1))
    here = moderate([rejection], {"a": after}).reviews["a"]
    newest = command(2, at=NOW)
    assert moderate([newest], {"a": here}).reviews["a"].status is ReviewStatus.REJECTED
    by_verdict = here._replace(moderator="verdict:ai")
    assert moderate([newest], {"a": by_verdict}).reviews["a"].status is ReviewStatus.APPROVED


def test_review_restored_before_restorations_were_stored() -> None:
    document: Document = {
        **{"_id": "a", "entityType": "Product", "entityId": "p1", "storeId": "s", "userId": None, "title": None},
        **{"review": "Good", "ratingHundredths": 400, "status": 1, "createdDate": WRITTEN, "modifiedDate": DECIDED},
    }
    assert moderated_from({**document, "submittedAt": NOW}).restored_at == DECIDED
    assert moderated_from({**document, "submittedAt": DECIDED}).restored_at is None
    assert moderated_from(document).restored_at is None
    stored = moderate([command()], {"a": IMPORTED}).reviews["a"]
    assert moderated_from(document | moderated_fields(stored)).restored_at == DECIDED


@given(st.lists(pasts, min_size=1, max_size=4))
def test_histories_give_the_same_result_in_one_batch_or_several(restorations: list[Restored]) -> None:
    commands = [command(place)._replace(restored=past) for place, past in enumerate(restorations)]
    present, stored = IMPORTED, restored_fields(Restored(ReviewStatus.NEW, WRITTEN))
    for each in commands:
        present = moderate([each], {"a": present._replace(restored=None)}).reviews["a"]
        stored |= restored_fields(present.restored) if present.restored else {}
    at_once = moderate(commands, {"a": IMPORTED}).reviews["a"]
    assert at_once.restored is not None
    assert restored_fields(Restored(ReviewStatus.NEW, WRITTEN)) | restored_fields(at_once.restored) == stored
    assert at_once._replace(restored=None) == present._replace(restored=None)


def test_imported_decision_is_not_dated_in_the_future() -> None:
    after = moderate([command(at=NOW + timedelta(days=1))], {"a": IMPORTED}).reviews["a"]
    assert after.modified == NOW


def test_review_written_here_has_no_earlier_history() -> None:
    undated = IMPORTED._replace(modified=NOW, imported=NOW, created=NOW)
    assert moderate([command()], {"a": undated}).outcomes == [Outcome.UNCHANGED]
    # The source's date was ahead of our clock.
    assert moderate([command(at=NOW)], {"a": undated}).outcomes == [Outcome.APPLIED]
    assert moderate([command()], {"a": undated._replace(created=WRITTEN)}).outcomes == [Outcome.APPLIED]


def test_only_imported_reviews_are_restored() -> None:
    for other in (IMPORTED._replace(imported=None), IMPORTED._replace(modified=None)):
        moderated = moderate([command()], {"a": other})
        assert moderated.outcomes == [Outcome.UNCHANGED]
        assert moderated.reviews["a"]._replace(seen=other.seen) == other


@pytest.mark.parametrize(
    "kept",
    [
        IMPORTED._replace(imported=None),
        IMPORTED._replace(modified=None),
        IMPORTED._replace(imported=NOW, created=NOW, modified=NOW),
        IMPORTED._replace(modified=NOW),
    ],
)
def test_restoration_without_effect_counts_as_processed(kept: ModeratedReview) -> None:
    moderated = moderate([command()], {"a": kept})
    assert moderated.outcomes == [Outcome.UNCHANGED]
    assert moderated.reviews["a"].seen.covers(command().position)


def test_review_of_another_store_is_not_restored() -> None:
    bound = command()._replace(stores=["t"])
    assert moderate([bound], {"a": IMPORTED}).results == [
        ModerationResult(Outcome.REFUSED, ModerationRefusal.OTHER_STORE)
    ]


@given(st.lists(st.sampled_from([ModerationAction.APPROVE, ModerationAction.REJECT, ModerationAction.RESET])))
def test_local_decisions_win_whenever_the_import_arrives(actions: list[ModerationAction]) -> None:
    here = [
        Moderation("a", action, RecordPosition(0, 10 + n, 2_000 + n), NOW + timedelta(seconds=n))
        for n, action in enumerate(actions)
    ]
    first = moderate([command(), *here], {"a": IMPORTED}).reviews["a"]
    imported_again = moderate([command(100)], {"a": first})
    if any(action is not ModerationAction.APPROVE for action in actions):
        assert imported_again.reviews["a"].status is first.status
    assert not imported_again.tallies


def test_each_status_has_its_own_event() -> None:
    assert MODERATION_EVENTS.keys() == {*ReviewStatus, None}
    assert len(set(MODERATION_EVENTS.values())) == len(MODERATION_EVENTS)


def test_statement_of_reasons_for_the_author_of_a_rejected_review() -> None:
    position = RecordPosition(0, 0, 1_000)
    rejection = Moderation("a", ModerationAction.REJECT, position, NOW, moderator="eve", reason="Why")
    statement = statement_of_reasons(rejection._replace(reason_code=ReasonCode.SPAM), "anna")
    assert statement is not None
    shown = (statement["userId"], statement["reasonCode"], statement["reason"], statement["decidedBy"])
    assert shown == ("anna", "spam", "Why", "moderator")
    assert "Write to the store" in statement["contest"]
    nameless = statement_of_reasons(rejection._replace(moderator=None), "anna")
    assert nameless is not None
    assert (nameless["decidedBy"], nameless["reasonCode"]) == ("system", None)
    assert statement_of_reasons(rejection, None) is None
    assert statement_of_reasons(rejection._replace(action=ModerationAction.APPROVE), "anna") is None
    assert statement_of_reasons(command(status=ReviewStatus.REJECTED), "anna") is None


@pytest.mark.parametrize("status", ReviewStatus)
def test_imported_decision_wins_over_a_classifiers(status: ReviewStatus) -> None:
    approved = IMPORTED._replace(
        status=ReviewStatus.APPROVED, modified=NOW, moderator="verdict:ai", flags=("verdict:b", "old")
    )
    after = moderate([command(status=status)], {"a": approved}).reviews["a"]
    if status is ReviewStatus.NEW:
        assert after._replace(seen=approved.seen) == approved
    else:
        assert (after.status, after.modified) == (status, DECIDED)
        assert after.restored is not None
        assert after.restored.flags == ("links", "verdict:b")


@pytest.mark.parametrize(("flags", "held"), [(("links",), True), (("verdict:ai",), False), ((), False), (None, None)])
def test_review_held_by_an_imported_rule_waits_for_a_moderator(
    flags: tuple[str, ...] | None, held: bool | None
) -> None:
    assert restored_fields(Restored(ReviewStatus.NEW, DECIDED, flags)).get("held") is held


@pytest.mark.parametrize(
    ("earlier", "later", "expected"),
    [((("links",), True), (None, False), (("links",), True)), ((("links",), False), ((), True), ((), True))],
)
def test_later_past_keeps_the_flags_that_it_does_not_know_and_a_proven_purchase(
    earlier: tuple[tuple[str, ...] | None, bool],
    later: tuple[tuple[str, ...] | None, bool],
    expected: tuple[tuple[str, ...] | None, bool],
) -> None:
    first, second, both = (
        Restored(ReviewStatus.APPROVED, at, flags, is_verified=is_verified)
        for at, (flags, is_verified) in ((WRITTEN, earlier), (DECIDED, later), (DECIDED, expected))
    )
    assert second.behind(first) == both
