"""Outcomes of commands: partial, refused, of a reused key, of a review decided on by somebody else."""

import asyncio
import random
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest

from domain.commands import CommandMark
from tests.support.facade import REVIEWS, Facade, body_of, errors_of, new_id, once, problem_of, submission
from tests.support.messages import message, moderation
from tests.support.orders import an_order, order_event, wanted_return
from tests.support.retries import retry_until_decided, retry_until_served
from tests.support.service import Json, Service
from tests.support.waiting import eventually

COMMANDS = "/api/commands"
STATUS_CHANGED = "Its status isn't the expected one: see `status` and `moderator`."
IN_TURN = 500
"""Number of ids in one command of a race."""


async def state_of(http: httpx.AsyncClient, command_id: str) -> Json:
    return body_of(await http.get(f"{COMMANDS}/{command_id}"), dict)


async def settled(http: httpx.AsyncClient, command_id: str) -> Json:
    """Return the state of a command once every outcome is known."""
    return await eventually(partial(state_of, http, command_id), lambda state: state["outcome"] != "accepted")


async def by_kafka(service: Service, action: str, id: str, *, mark: CommandMark | None = None, **more: Any) -> Json:
    """Publish a moderation command, and return its stored outcome."""
    command_id = more.setdefault("commandId", str(uuid4()))
    headers = [("ce_commandmark", str(mark).encode())] if mark else []
    await service.publish("moderation-commands", message({"action": action, "ids": [id], **more}, id, headers))
    return await eventually(partial(service.find, "outcomes", f"{command_id}/{id}"))


@pytest.mark.long
async def test_partial_and_refused_outcomes(http: httpx.AsyncClient, facade: Facade, product: str) -> None:
    (id,) = await facade.submit(submission(product))
    unknown = new_id("review")
    approve = partial(http.post, f"{REVIEWS}/approve")
    answer = body_of(
        await retry_until_decided(partial(approve, json=[id, unknown], headers=once() | {"Prefer": "wait=3"})), dict
    )
    assert answer["outcome"] == "partial"
    not_found = {"id": unknown, "outcome": "not-found"}
    assert answer["results"] == [{"id": id, "outcome": "applied"}, not_found]
    # It is parked, and may still be applied.
    state = await state_of(http, answer["commandId"])
    assert state == {"commandId": answer["commandId"], "outcome": "accepted", "results": answer["results"]}

    response = await retry_until_decided(partial(approve, json=[unknown], headers=once() | {"Prefer": "wait=2"}))
    assert response.headers["preference-applied"] == "wait=2"
    problem = problem_of(response, 409)
    assert problem["type"] == "/problems/not-applied"
    assert (problem["ids"], problem["outcome"], problem["results"]) == ([unknown], "refused", [not_found])
    await facade.submit(submission(product, id=unknown))
    assert (await settled(http, problem["commandId"]))["outcome"] == "applied"
    assert {result["outcome"] for result in (await settled(http, answer["commandId"]))["results"]} <= {
        "applied",
        "unchanged",
    }


async def test_outcome_of_every_command_can_be_queried(http: httpx.AsyncClient, facade: Facade) -> None:
    store = await facade.open_store()
    reviews = [submission(new_id(), storeId=store) for _ in range(3)]
    accepted = [
        body_of(await retry_until_served(partial(http.request, method, path, json=body)), dict, 202)
        for method, path, body in (
            ("POST", REVIEWS, reviews),
            ("PUT", f"/api/stores/{store}", {"name": "Cameras"}),
            ("PUT", f"/api/notificationTemplates/OrderReviewRequest?storeId={store}", {"subject": "How was it?"}),
            ("POST", f"/api/rating/calculateStore?storeId={store}", None),
        )
    ]
    for answer in accepted:
        state = await settled(http, answer["commandId"])
        assert state["outcome"] == "applied"
        assert sorted(result["id"] for result in state["results"]) == sorted(answer["ids"])
    problem = problem_of(await http.get(f"{COMMANDS}/{uuid4()}"), 404)
    assert "not been applied yet" in problem["detail"]
    assert "never accepted" in problem["detail"]


@pytest.mark.parametrize("is_waited_for", [True, False])
async def test_idempotency_key_identifies_one_request(
    http: httpx.AsyncClient, facade: Facade, is_waited_for: bool
) -> None:
    headers = once() if is_waited_for else {"Idempotency-Key": new_id("key")}
    (id, other) = await facade.submit(submission(new_id()), submission(new_id()))
    send = partial(http.post, f"{REVIEWS}/approve", json=[id], headers=headers)
    first = await (retry_until_decided(send) if is_waited_for else send())
    assert first.is_success
    for path, body in ((f"{REVIEWS}/approve", [other]), (f"{REVIEWS}/approve?reason=Good", [id])):
        problem = problem_of(await http.post(path, json=body, headers=headers), 422)
        assert problem["type"] == "/problems/idempotency-key-reused"
        assert problem["commandId"] == first.json()["commandId"]
    assert (await send()).json() == first.json()
    assert (await facade.review(other))["reviewStatus"] == "New"


async def test_one_of_two_requests_with_same_key_is_accepted(http: httpx.AsyncClient, product: str) -> None:
    key, bodies = once(), [[submission(product, rating)] for rating in (1, 5)]
    sent = (retry_until_decided(partial(http.post, REVIEWS, json=body, headers=key)) for body in bodies * 3)
    answers = await asyncio.gather(*sent)
    taken = {answer.status_code for answer in answers[::2]}, {answer.status_code for answer in answers[1::2]}
    assert taken in (({200}, {422}), ({422}, {200}))


async def test_consumer_applies_first_of_two_commands_with_same_key(service: Service, facade: Facade) -> None:
    (id,) = await facade.submit(submission(new_id()))
    command = str(uuid4())
    stored = await by_kafka(service, "approve", id, mark=CommandMark(1, "aa"), commandId=command)
    assert (stored["outcome"], stored["mark"]) == ("applied", "1 aa ")
    # From an API that knew nothing of the first one.
    await by_kafka(service, "reject", id, mark=CommandMark(1, "bb"), commandId=command)
    assert (await by_kafka(service, "approve", id))["outcome"] == "unchanged"


async def test_ids_with_slashes_are_not_confused(
    service: Service, facade: Facade, http: httpx.AsyncClient, product: str
) -> None:
    """A command about one item must not get the outcome of another command about another item."""
    command, review = new_id("import"), new_id("review")
    ids = await facade.submit(submission(product, 5, id=f"7/{review}"), submission(product, 3, id=review))
    await service.publish("moderation-commands", moderation("approve", ids[0], commandId=command))
    await facade.until_rated(product, 5, 1)
    await service.publish("moderation-commands", moderation("approve", ids[1], commandId=f"{command}/7"))
    await facade.until_rated(product, 4, 2)
    for id, item in ((command, ids[0]), (f"{command}/7", ids[1])):
        state = await state_of(http, quote(id, safe=""))
        assert state["results"] == [{"id": item, "outcome": "applied"}]


@pytest.mark.parametrize("word", ["New", "nEW", "0"])
async def test_expected_status(http: httpx.AsyncClient, facade: Facade, product: str, word: str) -> None:
    ids = await facade.submit(submission(product), submission(product))
    assert await facade.moderate("reject", ids[0]) == ["applied"]
    query = f"?expectedStatus={word}"
    answer = body_of(
        await retry_until_decided(partial(http.post, f"{REVIEWS}/approve{query}", json=ids, headers=once())), dict
    )
    refused = {"id": ids[0], "outcome": "refused", "reason": "status-changed", "status": "Rejected", "moderator": None}
    refused["message"] = STATUS_CHANGED
    assert (answer["outcome"], answer["results"]) == ("partial", [refused, {"id": ids[1], "outcome": "applied"}])
    assert (await state_of(http, answer["commandId"]))["outcome"] == "partial"
    assert await facade.rating(product) == (4.0, 1)
    for method, path in (("POST", "/reset"), ("DELETE", "")):
        body = ids if path else {"ids": ids}
        send = partial(http.request, method, REVIEWS + path + query, json=body, headers=once())
        problem = problem_of(await retry_until_decided(send), 409)
        assert [result["status"] for result in problem["results"]] == ["Rejected", "Approved"]
    delete = partial(http.delete, f"{REVIEWS}?ids={ids[0]}&expectedStatus=rejected", headers=once())
    assert body_of(await retry_until_decided(delete), dict)["outcome"] == "applied"


async def test_expected_text_hash(http: httpx.AsyncClient, facade: Facade, product: str) -> None:
    """Each of the four actions skips a review whose text has changed, and applies to the others of the command."""
    ids = await facade.submit(*(submission(product, title=None, review=text) for text in ("Good", "Better")))
    body = {"ids": ids, "textHashes": {ids[0]: sha256(b"\nBad").hexdigest(), ids[1]: sha256(b"\nBetter").hexdigest()}}
    refused = {
        "id": ids[0],
        "outcome": "refused",
        "reason": "text-changed",
        "message": "Its text has changed: read it again, and send the hash of the new text.",
    }
    for method, path in (("POST", "/approve"), ("POST", "/reject"), ("POST", "/reset"), ("DELETE", "")):
        send = partial(http.request, method, REVIEWS + path, json=body, headers=once())
        answer = body_of(await retry_until_decided(send), dict)
        assert answer["results"] == [refused, {"id": ids[1], "outcome": "applied"}], path
    assert (await facade.review(ids[0]))["reviewStatus"] == "New"
    right = {"ids": ids[:1], "textHashes": {ids[0]: sha256(b"\nGood").hexdigest().upper()}}
    answer = body_of(
        await retry_until_decided(partial(http.post, f"{REVIEWS}/approve", json=right, headers=once())), dict
    )
    assert answer["outcome"] == "applied"


@pytest.mark.parametrize(
    ("body", "place", "code"),
    [
        ({"ids": ["a"], "textHashes": {"b": "0" * 64}}, "/textHashes/b", "other-review"),
        ({"ids": ["a"], "textHashes": {"a": "x"}}, "/textHashes/a", "string-pattern-mismatch"),
        ({"ids": ["a"], "textHash": "0" * 64}, "/textHash", "unknown-field"),
        ({"textHashes": {}}, "/ids", "missing"),
        ({"ids": ["a", ""]}, "/ids/1", "blank"),
        (["a", ""], "/1", "blank"),
        ([], "", "too-short"),
        (["a", None], "/1", "string-type"),
        ([["a"]], "/0", "string-type"),
        (5, "", "list-type"),
        ("a", "", "list-type"),
    ],
)
async def test_invalid_bodies_of_moderation(http: httpx.AsyncClient, body: object, place: str, code: str) -> None:
    ((pointer, found_code),) = errors_of(await http.post(f"{REVIEWS}/approve", json=body))
    assert (pointer, found_code) == (place, code)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("expectedStatus=", "unknown-status"),
        ("expectedStatus=Newer", "unknown-status"),
        ("expectedStats=New", "unknown-parameter"),
        ("ids=a", "unknown-parameter"),
        ("expectedStatus=New&expectedStatus=Approved", "duplicate-parameter"),
    ],
)
async def test_invalid_query_of_moderation(http: httpx.AsyncClient, query: str, code: str) -> None:
    ((pointer, found_code),) = errors_of(await http.post(f"{REVIEWS}/approve?{query}", json=[new_id("review")]))
    assert (pointer, found_code) == (f"/{query.partition('=')[0]}", code)


async def test_expected_status_in_the_body_is_pointed_to_the_query(http: httpx.AsyncClient) -> None:
    body = {"ids": [new_id("review")], "ExpectedStatus": "New", "other": 1}
    errors = problem_of(await http.post(f"{REVIEWS}/approve", json=body), 422)["errors"]
    messages = {each["pointer"]: each["message"] for each in errors}
    assert messages.pop("/ExpectedStatus") == "Send it in the query, not in the body: ?expectedStatus="
    assert messages["/other"].startswith("There is no field with this name.")


async def test_expected_status_by_kafka(service: Service, facade: Facade, product: str) -> None:
    early = new_id("review")
    # Parked: a review that is New on arrival doesn't match the expected status.
    command = str(uuid4())
    parked = {"action": "delete", "ids": [early], "expectedStatus": "REJECTED", "commandId": command}
    await service.publish("moderation-commands", message(parked, early))
    await facade.submit(submission(product, id=early))
    stored = await eventually(partial(service.find, "outcomes", f"{command}/{early}"))
    assert (stored["outcome"], stored["reason"], stored["status"]) == ("refused", "status-changed", "New")
    approved = await by_kafka(service, "approve", early, expectedStatus=0, moderator="anna")
    assert approved["outcome"] == "applied"
    rejected = await by_kafka(service, "reject", early, expectedStatus="new", moderator="bert")
    refusal = {name: rejected[name] for name in ("outcome", "reason", "status", "moderator")}
    assert refusal == {"outcome": "refused", "reason": "status-changed", "status": "Approved", "moderator": "anna"}
    assert await facade.rating(product) == (4.0, 1)


async def test_events_contain_status_before_and_after(facade: Facade, service: Service, product: str) -> None:
    (id,) = await facade.submit(submission(product))
    for action in ("approve", "reject", "reset", "delete"):
        await facade.moderate(action, id)

    async def moderations() -> list[Json]:
        return [data for kind, data in await service.events(f"Product:{product}") if "statusBefore" in data]

    found = await eventually(moderations, lambda found: len(found) >= 4)
    assert [(event["statusBefore"], event["status"]) for event in found] == [
        ("New", "Approved"),
        ("Approved", "Rejected"),
        ("Rejected", "New"),
        ("New", None),
    ]


async def decide(http: httpx.AsyncClient, action: str, ids: Sequence[str]) -> dict[str, Json]:
    """Decide on reviews that were New a moment ago, and wait for all results."""
    response = await http.post(f"{REVIEWS}/{action}?expectedStatus=New", json=ids, headers={"Prefer": "wait=20"})
    answer = problem_of(response, 409) if response.status_code == 409 else response.json()
    if response.status_code == 202:
        answer = await settled(http, answer["commandId"])
    return {result["id"]: result for result in answer["results"]}


@pytest.mark.parametrize("decisions", [400, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_two_moderators_do_not_overwrite_each_other(
    http: httpx.AsyncClient, facade: Facade, product: str, decisions: int
) -> None:
    count = decisions // 2
    parts = [min(IN_TURN, count - at) for at in range(0, count, IN_TURN)]
    ids = [id for size in parts for id in await facade.submit(*(submission(product) for _ in range(size)))]
    chance = random.Random(decisions)

    async def moderator(action: str) -> dict[str, Json]:
        mine = chance.sample(ids, len(ids))
        pieces = [mine[at : at + max(20, count // 20)] for at in range(0, count, max(20, count // 20))]
        return {id: result for piece in pieces for id, result in (await decide(http, action, piece)).items()}

    approved, rejected = await asyncio.gather(moderator("approve"), moderator("reject"))
    assert len(approved) == len(rejected) == count
    for id in ids:
        loser = {
            "id": id,
            "outcome": "refused",
            "reason": "status-changed",
            "moderator": None,
            "message": STATUS_CHANGED,
        }
        won, lost = ("Approved", rejected) if approved[id]["outcome"] == "applied" else ("Rejected", approved)
        other = approved if lost is rejected else rejected
        assert other[id] == {"id": id, "outcome": "applied"}
        assert lost[id] == {**loser, "status": won}
    wins = sum(result["outcome"] == "applied" for result in approved.values())
    listed = await facade.page(entityIds=[product], reviewStatus="Approved", take=0)
    assert listed["totalCount"] == wins
    assert (await facade.rating(product))[1] == wins


@pytest.mark.long
async def test_commands_about_unaddressable_ids_that_earlier_version_acknowledged_take_effect(
    own_service: Service, product: str
) -> None:
    """They may be unread at an upgrade, and their clients wait for the outcomes."""
    service, key, ids = own_service, f"Product:{product}", (".", "..", "canLeaveFeedback")
    order, commands = new_id("order"), [str(uuid4()) for _ in range(3)]
    await service.publish("order-events", order_event(an_order(order, {"a": 3})))
    for id in ids:
        by_facade: Json = {"id": id, "via": "api", "editor": {"right": "author", "name": "u"}}
        review = submission(product, **by_facade)
        edit = {**by_facade, **{name: review[name] for name in ("userId", "EntityId", "EntityType")}}
        values = [{**each, "commandId": command} for each, command in zip((review, edit), commands, strict=False)]
        await service.publish("review-submissions", *(message(each, key) for each in values))
        creation = {"action": "create", "return": wanted_return(order, {"a": 1}, id=id), "commandId": commands[2]}
        await service.publish("return-commands", message(creation, order))
    for id in ids:
        found = [await eventually(partial(service.find, "outcomes", f"{command}/{id}")) for command in commands]
        assert [outcome["outcome"] for outcome in found] == ["applied", "unchanged", "applied"]
    # Nobody waits for the outcome of one that comes without a command.
    await service.publish("review-submissions", message(submission(product, id="."), key))
    (letter,) = await eventually(service.dead_letters)
    assert b"no address could name it" in dict(letter.headers)["x-error-message"]
