"""The checks of the fault suite find deviations from the model, and runs that did too little."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from domain.reviews import ModerationAction, ReviewStatus
from messaging import readers
from messaging.asyncapi import CHANNELS
from messaging.topics import Topic
from tests.chaos import clients
from tests.chaos.actors import World
from tests.chaos.bad_records import TOPICS, good_value, id_for
from tests.chaos.check_dead_letters import allowed_codes
from tests.chaos.check_events import wrong_lifecycles, wrong_rating_events, wrong_refusals
from tests.chaos.check_ratings import wrong_summaries
from tests.chaos.check_repeats import changed_fields
from tests.chaos.clients import Http, Ledger, NotAcknowledgedError
from tests.chaos.exactly_once import (
    ACTIONS,
    RESTORE,
    announced,
    contradictions,
    misannounced,
    wrong_entries,
    wrong_events,
    wrong_refused_returns,
)
from tests.chaos.model import CLOSED_STORE, RULED_STORE, STATUS_AFTER, Feedback, Json, Model
from tests.chaos.plan import Plan, Result
from tests.chaos.purchases import Shopper
from tests.chaos.ratings_watch import INTERVAL_S
from tests.chaos.rules import Critic
from tests.chaos.run import MANY_LOOKS, Run
from tests.chaos.work import ENOUGH_TURNS, WORK
from tests.support.service import FLOW

BODY: Json = {"EntityId": "camera", "review": "Sharp.", "rating": 4}
SECOND, CLOSED, TAKEN = "duplicate-review", "reviews-disabled", "id-taken"


def refusals(model: Model, reported: Iterable[tuple[str, str]], winners: Iterable[str] = ()) -> set[tuple[str, str]]:
    events = [{"reviewId": id, "code": code} for id, code in reported]
    return {(each.kind, each.id) for each in wrong_refusals(model, events, set(winners))}


def test_oracle_knows_every_action_and_event() -> None:
    assert {*STATUS_AFTER, "delete", RESTORE} == {*ModerationAction}
    assert {*STATUS_AFTER.values()} == {status.label for status in ReviewStatus}
    checked_elsewhere = {"RatingChanged", "ReminderRequested", "SubmissionRefused"}
    assert ACTIONS.keys() | checked_elsewhere == CHANNELS[Topic.EVENTS].messages.keys()


def test_only_losers_of_a_race_are_refused() -> None:
    model = Model(races={"camera": ["a", "b", "c", "d"]}, raced={"a", "b", "c"})
    assert refusals(model, [("a", SECOND), ("b", SECOND)], "c") == set()
    # An unacknowledged submission may be refused or not.
    assert refusals(model, [("a", SECOND), ("b", SECOND), ("d", SECOND)], "c") == set()
    assert refusals(model, [("a", SECOND)], "c") == {("lost", "b")}
    assert refusals(model, [(id, SECOND) for id in "abc"], "c") == {("wrong", "c")}
    assert refusals(model, [("a", SECOND), ("b", CLOSED)], "c") == {("lost", "b"), ("wrong", "b")}


def test_refusal_codes_are_checked() -> None:
    model = Model()
    model.submit("closed", {**BODY, "storeId": CLOSED_STORE})
    model.submit("mine", BODY)
    model.submit_by_rival("mine")
    assert refusals(model, [("closed", CLOSED), ("mine", TAKEN)]) == set()
    assert refusals(model, []) == {("lost", "closed"), ("lost", "mine")}
    reported = [("closed", TAKEN), ("mine", CLOSED), ("mine", "unknown-store")]
    assert refusals(model, reported) == {(kind, id) for kind in ("lost", "wrong") for id in ("closed", "mine")}


def test_missing_and_extra_lifecycle_events_are_found() -> None:
    model = Model(deleted_returns={"return"})
    for id, action in (("approved", "approve"), ("rejected", "reject"), ("deleted", "delete"), ("new", "reset")):
        model.submit(id, BODY)
        model.moderate(action, id)
    published: dict[str, list[Json]] = {
        "ReviewSubmitted": [{"reviewId": id} for id in (*model.reviews, "winner")],
        **{f"Review{kind}": [{"reviewId": kind.lower()}] for kind in ("Approved", "Rejected", "Deleted")},
        **{f"Return{kind}": [{"returnId": "return"}] for kind in ("Created", "Deleted")},
    }

    def found(published: dict[str, list[Json]]) -> list[tuple[str, str]]:
        full = {name: published.get(name, []) for name in kinds}
        return [(each.kind, each.id) for each in wrong_lifecycles(model, full, {"winner"})]

    kinds = list(published)
    assert found(published) == []
    for kind, events in published.items():
        for event in events:
            less = {**published, kind: [each for each in events if each != event]}
            assert found(less) == [("lost", next(iter(event.values())))], kind
    for kind in ("ReviewSubmitted", "ReviewDeleted"):
        assert found({**published, kind: [*published[kind], {"reviewId": "other"}]}) == [("wrong", "other")]


def miscounts(model: Model, found: Iterable[tuple[str, str]], winners: Iterable[str] = ()) -> set[tuple[str, str]]:
    counted = wrong_events(model, Counter(found), set(winners), is_mixed=False)
    return {(each.kind, each.id) for each in counted}


def test_each_change_has_one_event() -> None:
    model = Model(rushes={"order": (1, ["granted", "refused"])})
    for id, store in (("mine", None), ("ruled", RULED_STORE)):
        model.submit(id, {**BODY, "storeId": store})
        for action in ("approve", "approve", "reset", "approve"):
            model.moderate(action, id)
    mine = [("mine", "submit"), ("mine", "approve"), ("mine", "reset"), ("mine", "approve")]
    right = [*mine, ("ruled", "submit"), ("winner", "submit"), ("granted", "create")]
    assert miscounts(model, right, ["winner"]) == set()
    # Rules approve, too.
    assert miscounts(model, [*right, ("ruled", "approve")], ["winner"]) == set()
    for change in right[:-1]:
        less = list((Counter(right) - Counter([change])).elements())
        assert miscounts(model, less, ["winner"]) == {("lost", change[0])}
    for change in right:
        assert miscounts(model, [*right, change], ["winner"]) == {("duplicated", change[0])}
    for change in (("mine", "reject"), ("ruled", "delete"), ("loser", "submit")):
        assert miscounts(model, [*right, change], ["winner"]) == {("wrong", change[0])}


def test_each_decision_is_logged_once() -> None:
    model = Model(feedback={"mine": Feedback(reports=2)})
    model.submit("mine", BODY)
    for action in ("approve", "approve"):
        model.moderate(action, "mine")
    for _ in range(2):
        model.close_reports("approve", "mine")
    assert wrong_entries(model, Counter({("mine", "approve"): 2})) == []
    assert [each.kind for each in wrong_entries(model, Counter({("mine", "approve"): 1}))] == ["lost"]
    assert [each.kind for each in wrong_entries(model, Counter({("mine", "approve"): 3}))] == ["duplicated"]


def test_events_and_audit_log_have_the_same_decisions() -> None:
    # Nothing of it is in the model: rules, verdicts and pasts decide, too.
    events = Counter({("ruled", "approve"): 2, ("moved", "reject"): 1, ("moved", "approve"): 1, ("held", "submit"): 1})
    entries = Counter({("ruled", "approve"): 2, ("moved", "restore"): 1, ("moved", "approve"): 1})
    entries += Counter({("held", "reset"): 1, ("held", "delete"): 1})
    model = Model(closings=Counter({("held", "reset"): 1}))

    def found(events: Counter[tuple[str, str]], entries: Counter[tuple[str, str]]) -> list[tuple[str, str]]:
        return [(each.kind, each.id) for each in contradictions(model, events, entries)]

    assert found(events, entries) == []
    for change in (("ruled", "approve"), ("moved", "reject"), ("moved", "approve")):
        assert found(events - Counter([change]), entries) == [("lost", change[0])]
        assert found(events + Counter([change]), entries) == [("duplicated", change[0])]
    for change in (("ruled", "approve"), ("moved", "approve"), ("moved", "restore"), ("held", "reset")):
        assert found(events, entries - Counter([change])) == [("duplicated", change[0])]
        assert found(events, entries + Counter([change])) == [("lost", change[0])]
    # An approval that is logged as a rejection.
    assert found(events, entries - Counter([("ruled", "approve")]) + Counter([("ruled", "reject")])) == [
        ("lost", "ruled")
    ]


async def test_a_moderator_who_leaves_a_held_review_new_has_decided() -> None:
    def acknowledged(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"commandId": "c", "ids": []})

    model, ledger, nobody = Model(), Ledger(), cast(Any, None)
    async with httpx.AsyncClient(transport=httpx.MockTransport(acknowledged)) as client:
        world = World(Http(["http://facade"], ledger, client), nobody, ledger, model, (), "s1", nobody)
        for id, flags, status in (("held", ["low"], "New"), ("free", [], "New"), ("published", ["low"], "Approved")):
            model.submit(id, {**BODY, "storeId": RULED_STORE})
            model.reviews[id].status, model.flags[id] = status, flags
        await Critic(world, "critic", 1).moderate("reset", list(model.reviews))
    assert +model.closings == {("held", "reset"): 1}
    assert model.applied == {("published", "reset"): 1}


def test_edits_replies_and_reports_have_events() -> None:
    model = Model(feedback={"mine": Feedback(reply="Thanks", reports=2), "gone": Feedback(reply="Thanks", reports=1)})
    for id in ("mine", "same", "gone"):
        model.submit(id, {**BODY, "title": "Good", "userName": "Ann"})
    for id, title in (("mine", "Better"), ("mine", "Best"), ("same", "Good"), ("gone", "Better")):
        model.edit(id, {**BODY, "title": title, "userName": "Ann"}, is_reset=False)
    model.moderate("delete", "gone")
    for id in ("mine", "gone"):
        model.sent += Counter({(id, "reply"): 1, (id, "report"): 3})
    least = [("mine", "edit"), ("mine", "reply"), ("mine", "report"), ("mine", "report")]

    def found(changes: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        return [(each.kind, each.id) for each in misannounced(model, Counter(changes))]

    assert found(least) == found(model.sent.elements()) == []
    for change in least:
        assert found((Counter(least) - Counter([change])).elements()) == [("lost", "mine")]
    for change in model.sent:
        assert found([*least, *[change] * (model.sent[change] + 1)]) == [("duplicated", change[0])]
    for action in ("edit", "reply", "report"):
        assert found([*least, ("other", action)]) == [("wrong", "other")]


def test_refused_returns_have_events() -> None:
    model = Model(rushes={"order": (1, ["granted", "lost"])})
    model.apply_order_event({"id": "o", "items": [{"id": "l", "quantity": 1}], "modifiedDate": "2026"})
    wanted: Json = {"orderId": "o", "lineItems": [{"orderLineItemId": "l", "quantity": 1}]}
    for id in ("first", "second"):
        model.command_return("create", id, wanted, f"{id}-created")
    model.command_return("create", "at-once", wanted, "answered")
    model.outcomes.rename("answered", None)
    granted = ("granted", "create")
    right = [granted, ("second", "refuse"), ("lost", "refuse")]

    def found(changes: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        return [(each.kind, each.id) for each in wrong_refused_returns(model, Counter(changes))]

    assert found(right) == found([*right, *right, ("at-once", "refuse")]) == []
    assert found([granted, ("lost", "refuse")]) == [("lost", "second")]
    assert found([granted, ("second", "refuse")]) == [("lost", "lost")]
    assert found([*right, ("first", "refuse")]) == [("wrong", "first")]


async def test_ratings_of_deleted_reviews_are_empty() -> None:
    none = dict.fromkeys("12345", 0)
    empty: Json = {"reviewCount": 0, "average": 0.0, "histogram": none}
    stale: Json = {"reviewCount": 1, "average": 4.0, "histogram": {**none, "4": 1}}
    model = Model()
    for id, store in (("mine", "shop"), ("gone", "shop"), ("elsewhere", "other"), ("nowhere", None)):
        model.submit(id, {**BODY, "EntityId": id, "storeId": store})
        model.moderate("approve" if id == "mine" else "delete", id)
    shown: Json = {"mine": stale, "gone": empty, "elsewhere": empty}

    def summaries(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={id: shown[id] for id in request.url.params["ids"].split(",")})

    async with httpx.AsyncClient(transport=httpx.MockTransport(summaries)) as client:
        http = Http(["http://facade"], Ledger(), client)
        assert await wrong_summaries(http, model) == []
        shown["gone"] = stale
        assert [(each.kind, each.id) for each in await wrong_summaries(http, model)] == [("wrong", "gone")]


def test_repeated_events_count_once() -> None:
    body = json.dumps({"reviewId": "mine"}).encode()
    events = [
        SimpleNamespace(value=body, headers=[("ce_type", b"plaudit.ReviewApproved"), ("ce_id", id)])
        for id in (b"1", b"2", b"1")
    ]
    assert announced(events) == {("mine", "approve"): 2}


def test_changed_rows_are_described() -> None:
    before, now = json.dumps({"id": "r", "number": "1"}), json.dumps({"id": "r", "number": "2"})
    assert changed_fields(before, now) == "number: 1 to 2"
    assert changed_fields(before, None) == "id: r to None, number: 1 to None"


def test_rating_events_need_a_revision_except_from_the_previous_version() -> None:
    model = Model()
    model.submit("r", BODY)
    model.moderate("approve", "r")
    (((entity, store), (count, average, histogram)),) = model.ratings().items()
    event: Json = {"entityId": entity, "storeId": store, "reviewCount": count, "average": average}
    event["histogram"] = histogram
    for is_mixed, events, expected in (
        (False, [{**event, "revision": 1}], 0),
        (False, [event], 1),
        (True, [event], 0),
        (False, [{**event, "revision": 2}, {**event, "reviewCount": 0, "revision": 3}], 1),
        (True, [{**event, "reviewCount": 0}], 1),
    ):
        assert len(wrong_rating_events(model, events, is_mixed=is_mixed)) == expected, events


@pytest.mark.parametrize(
    ("value", "place", "codes"),
    [
        ("poison", ("t", 0, 1), ["invalid-json"]),
        ("\0", ("t", 0, 7), ["too-large"]),
        ("\0", ("t", 0, 8), ["undecodable"]),
        ("\0", ("t", 0, 9), []),
        ("\0", ("t", 1, 9), ["undecodable", "too-large"]),
        ('{"rating": 4}', ("t", 0, 2), []),
    ],
)
def test_allowed_dead_letter_codes(value: str, place: tuple[str, int, int], codes: list[str]) -> None:
    model = Model(unreadable={("t", 0, 7): "gzip-bomb", ("t", 0, 8): "unknown-codec"}, unacknowledged={("t", 1)})
    model.poison["poison"] += 1
    model.submit("r", BODY)
    assert list(allowed_codes(model, value, "r", place)) == codes


def test_bad_records_are_sent_to_every_topic_of_a_worker() -> None:
    assert {*TOPICS} == {*FLOW}
    for topic in TOPICS:
        assert readers.READERS[Topic(topic)](good_value(topic, id_for(topic)))


async def test_missing_work_of_a_run_is_listed() -> None:
    sizes: Any = dict.fromkeys(("seed", "commands", "reviewers", "importers", "buyers", "audiences", "deciders"), 1)
    plan, nobody = Plan(**sizes, faults=2, seconds=1.0, processes=()), cast(Any, None)
    world = World(nobody, nobody, Ledger(), Model(), (), "s1", nobody)
    run = Run(plan, print, Result(1), nobody, nobody, world)
    idle, busy = Shopper(world, "idle", 1), Shopper(world, "busy", 1)
    busy.turns = 1
    assert [message.split()[0] for message in run.missing_work([idle, busy])] == ["0", "s1-idle", "no"]
    run.turns, world.ledger.acknowledged = 2, 1
    assert list(run.missing_work([busy])) == []
    busy.turns = ENOUGH_TURNS
    assert list(run.missing_work([busy])) == [f"Shopper: no {word} in {busy.turns} turns" for word in WORK[Shopper]]
    # The same words of another class of clients don't count.
    for word in WORK[Shopper]:
        world.ledger.acknowledge(f"{word} by a test", "object", by="Buyer")
    assert len(list(run.missing_work([busy]))) == len(WORK[Shopper])
    for word in WORK[Shopper]:
        busy.acknowledge(f"{word} by a test", "object")
    assert list(run.missing_work([busy])) == []
    every = Run(replace(plan, kinds=("a", "b")), print, Result(1, faults=Counter("a")), nobody, nobody, world, turns=2)
    assert list(every.missing_work([busy])) == ["the fault b didn't happen"]
    run.began -= MANY_LOOKS * INTERVAL_S + 1
    assert list(run.missing_work([busy])) == ["ratings were never compared under load"]


async def test_a_question_to_a_broken_facade_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "TIMEOUT_S", 0.3)
    ledger = Ledger()
    async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(500))) as client:
        with pytest.raises(NotAcknowledgedError):
            await Http(["http://facade"], ledger, client).has("/api/images/1")
    assert ledger.unexpected


async def test_a_request_that_was_sent_too_slowly_is_repeated() -> None:
    answers, ledger = iter([httpx.Response(408), httpx.Response(202, json={"commandId": "c", "ids": []})]), Ledger()
    async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: next(answers))) as client:
        answer = await Http(["http://facade"], ledger, client).send("POST", "/api/customerReviews", [])
    assert (answer.status, answer.attempts, ledger.unexpected) == (202, 2, [])


@pytest.mark.parametrize("fields", [{"failures": ["x"]}, {"undone": ["x"]}, {"differences": {"lost": 1}}])
def test_run_verdicts(fields: Any) -> None:
    assert Result(1).is_good
    assert not Result(1, **fields).is_good
    assert Result(1, **fields).is_right is ("undone" in fields)
