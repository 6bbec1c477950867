"""The fault suite expects one outcome of the right kind for each command, and finds every other."""

import json
from collections.abc import Callable, Iterable

import httpx
import pytest

from tests.chaos.check_outcomes import item_in, wrong_outcomes, wrong_shown
from tests.chaos.clients import Http, Ledger
from tests.chaos.model import CLOSED_STORE, Json, Model
from tests.chaos.outcomes import APPLIED, ID_TAKEN, NOT_FOUND, UNCHANGED, Item, Outcome, Outcomes

BODY: Json = {"EntityId": "camera", "review": "Sharp.", "rating": 4}
ORDER: Json = {"id": "order", "modifiedDate": "2026-01-01", "items": [{"id": "line", "quantity": 2}]}
STATUS_CHANGED, TEXT_CHANGED = (Outcome("refused", f"{part}-changed") for part in ("status", "text"))
TOO_MANY, UNKNOWN = Outcome("refused", "quantity-not-available"), Outcome("refused", "unknown-return")


def reviews() -> Model:
    """Commands on the review "r", which is deleted in the end, and on one that a closed store refused."""
    model = Model()
    model.moderate("approve", "r", command="early")
    model.submit("r", BODY, "submit")
    model.moderate("approve", "r", command="again")
    model.moderate("reject", "r", "New", command="late")
    model.moderate("reject", "r", text="other", command="other-text")
    model.edit("r", {**BODY, "title": "New", "userName": None}, is_reset=False, command="edit")
    model.moderate("delete", "r", command="delete")
    model.moderate("approve", "r", command="gone")
    model.submit("closed", {**BODY, "storeId": CLOSED_STORE})
    model.moderate("approve", "closed", command="refused")
    model.moderate("approve", "never", command="waits")
    return model


RIGHT: dict[Item, Outcome] = {
    ("submit", "r"): APPLIED,
    ("early", "r"): APPLIED,
    ("again", "r"): UNCHANGED,
    ("late", "r"): STATUS_CHANGED,
    ("other-text", "r"): TEXT_CHANGED,
    ("edit", "r"): APPLIED,
    ("delete", "r"): APPLIED,
    ("gone", "r"): NOT_FOUND,
    ("refused", "closed"): NOT_FOUND,
}


def found(outcomes: Outcomes, stored: dict[Item, Outcome], gone: Iterable[str] = "r") -> list[tuple[str, str]]:
    return [(each.kind, each.id) for each in wrong_outcomes(outcomes, stored, set(gone), {"winner"})]


def test_each_command_about_a_review_has_its_outcome() -> None:
    assert found(reviews().outcomes, RIGHT) == []


@pytest.mark.parametrize("item", RIGHT)
def test_missing_and_wrong_outcomes_are_found(item: Item) -> None:
    outcomes = reviews().outcomes
    assert found(outcomes, {other: outcome for other, outcome in RIGHT.items() if other != item}) == [("lost", item[1])]
    for wrong in {APPLIED, UNCHANGED, NOT_FOUND, STATUS_CHANGED, TEXT_CHANGED} - {RIGHT[item]}:
        assert found(outcomes, RIGHT | {item: wrong}) == [("wrong", item[1])], wrong


def test_the_version_before_may_call_a_command_without_an_effect_applied() -> None:
    outcomes, stored = reviews().outcomes, RIGHT | {("again", "r"): APPLIED}
    assert wrong_outcomes(outcomes, stored, {"r"}, set(), is_mixed=True) == []
    assert len(wrong_outcomes(outcomes, stored, {"r"}, set())) == 1


@pytest.mark.parametrize(
    ("item", "right", "gone", "wrong"),
    [
        (("edit", "r"), ID_TAKEN, (), ID_TAKEN),
        (("waits", "never"), NOT_FOUND, "r", APPLIED),
        (("unknown", "x"), ID_TAKEN, "r", APPLIED),
    ],
    ids=["edit too late if its review is deleted", "waiting command given up", "unknown command refused"],
)
def test_some_commands_may_have_another_outcome(
    item: Item, right: Outcome, gone: Iterable[str], wrong: Outcome
) -> None:
    assert found(reviews().outcomes, RIGHT | {item: right}) == []
    assert found(reviews().outcomes, RIGHT | {item: wrong}, gone) == [("wrong", item[1])]


def test_competing_commands_have_the_outcome_of_their_item() -> None:
    outcomes = Outcomes()
    for id in ("winner", "loser"):
        outcomes.compete(f"of-{id}", id, TOO_MANY)
    right = {("of-winner", "winner"): APPLIED, ("of-loser", "loser"): TOO_MANY}
    assert found(outcomes, right) == []
    assert found(outcomes, right | {("of-winner", "winner"): TOO_MANY}) == [("wrong", "winner")]
    assert found(outcomes, right | {("of-loser", "loser"): APPLIED}) == [("wrong", "loser")]


def test_each_command_about_a_return_has_its_outcome() -> None:
    model, wanted = Model(), {"id": "t", "orderId": "order", "lineItems": [{"orderLineItemId": "line", "quantity": 2}]}
    model.command_return("create", "t", wanted, "early")
    model.command_return("update", "t", {"id": "t", "resolution": "Repair"}, "behind")
    assert found(model.outcomes, {}) == []
    model.apply_order_event(ORDER)
    model.command_return("create", "t", wanted, "again")
    model.command_return("create", "t", {**wanted, "resolution": "Other"}, "other")
    model.command_return("create", "second", {**wanted, "id": "second"}, "too-many")
    model.command_return("update", "second", {"id": "second", "status": "Approved"}, "unknown")
    model.command_return("delete", "second", {"id": "second"}, "nothing")
    model.command_return("delete", "t", {"id": "t"}, "delete")
    right = {
        **{("early", "t"): APPLIED, ("behind", "t"): APPLIED, ("again", "t"): UNCHANGED, ("other", "t"): ID_TAKEN},
        **{("too-many", "second"): TOO_MANY, ("unknown", "second"): UNKNOWN, ("delete", "t"): APPLIED},
        ("nothing", "second"): Outcome("not-found", "unknown-return"),
    }
    assert found(model.outcomes, right) == []
    assert len(model.outcomes.expected) == len(right)


def test_a_command_gets_the_id_that_the_service_chose() -> None:
    outcomes = Outcomes()
    for name in ("ours", "refused"):
        outcomes.expect(name, "t", APPLIED)
    outcomes.rename("ours", "theirs")
    outcomes.rename("refused", None)
    assert outcomes.expected == {("theirs", "t"): APPLIED}


@pytest.mark.parametrize(
    "change",
    [
        lambda shown: {**shown, "outcome": "applied"},
        lambda shown: {**shown, "results": shown["results"][:1]},
        lambda shown: {**shown, "results": [shown["results"][0], *shown["results"]]},
        lambda shown: {**shown, "results": [{**each, "reason": "id-taken"} for each in shown["results"]]},
    ],
)
async def test_commands_shown_otherwise_than_stored_are_found(change: Callable[[Json], Json]) -> None:
    outcomes = Outcomes()
    stored = {("c", "a"): APPLIED, ("c", "b"): STATUS_CHANGED}
    for (command_id, id), outcome in stored.items():
        outcomes.expect(command_id, id, outcome)
    results = [{"id": "a", "outcome": "applied"}, {"id": "b", "outcome": "refused", "reason": "status-changed"}]
    right: Json = {"commandId": "c", "outcome": "partial", "results": results}

    async def shown(body: Json) -> int:
        transport = httpx.MockTransport(lambda _: httpx.Response(200, content=json.dumps(body)))
        async with httpx.AsyncClient(transport=transport) as client:
            return len(await wrong_shown(Http(["http://api"], Ledger(), client), outcomes, stored))

    assert await shown(right) == 0
    assert await shown(change(right)) == 1


def test_keys_of_outcomes_are_read() -> None:
    assert item_in("a%2Fb%25/c/d") == ("a/b%", "c/d")
