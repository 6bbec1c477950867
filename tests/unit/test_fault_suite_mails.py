"""The fault suite reads mails: one about another order, customer, store or product is found, and so is a second one."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.chaos.check_mails import changed_repeats, miscounted_mails, mistaken_mails, unannounced_mails
from tests.chaos.model import CLOSED_STORE, MAX_MAILS, OPEN_STORE, Json, Model

LINES = [{"id": f"line{n}", "productId": f"p{n}", "name": f"Lens {n}", "quantity": 1} for n in (1, 2)]


def order(id: str, customer: str, **fields: Any) -> Json:
    names = {"id": id, "number": f"CO-{id}", "customerId": customer, "customerEmail": f"{customer}@example.com"}
    fields = {"storeId": OPEN_STORE, "status": "Complete", "modifiedDate": "2026-01-01", **fields}
    return {**names, "items": LINES, **fields}


def mail(of: Json, id: str, **fields: Any) -> Json:
    text = f"{of['number']}: {', '.join(line['name'] for line in of['items'])}"
    items = [{"productId": line["productId"], "name": line["name"]} for line in of["items"]]
    about = {"orderId": of["id"], "orderNumber": of["number"], "customerId": of["customerId"], "items": items}
    about |= {"to": of["customerEmail"], "storeId": of["storeId"], "text": text, "html": f"<p>{text}</p>"}
    return {"id": id, "template": "OrderReviewRequest", **about, **fields}


ANN, BEN = order("of-ann", "ann"), order("of-ben", "ben", items=LINES[:1], storeId=None)
OPEN, CLOSED = order("open", "ann", status="Processing"), order("closed", "ann", storeId=CLOSED_STORE)


def model() -> Model:
    made = Model()
    for event in (ANN, BEN, OPEN, CLOSED):
        made.apply_order_event(event)
    made.mails |= {"ann": MAX_MAILS}
    return made


RIGHT = mail(ANN, "1")


def test_right_mails_are_not_mistaken() -> None:
    mails = {"1": RIGHT, "2": mail(ANN, "2")}
    assert mistaken_mails(model(), mails) == []
    assert miscounted_mails(model(), mails) == []
    assert mistaken_mails(model(), {"3": mail(BEN, "3")}) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {**RIGHT, "to": "ben@example.com"},
        {**RIGHT, "customerId": "ben"},
        {**RIGHT, "storeId": None},
        {**RIGHT, "orderId": "of-ben"},
        {**RIGHT, "orderId": "unknown"},
        {**RIGHT, "orderNumber": "CO-of-ben"},
        {**RIGHT, "items": RIGHT["items"][:1]},
        {**RIGHT, "items": [*RIGHT["items"], {"productId": "p3", "name": "Lens 3"}]},
        {**RIGHT, "items": [RIGHT["items"][0], {"productId": "p2", "name": "Lens 1"}]},
        {**RIGHT, "template": "Other"},
        {**RIGHT, "text": RIGHT["text"].replace("CO-of-ann", "CO-of-ben")},
        {**RIGHT, "html": "<p></p>"},
        mail(OPEN, "1"),
        mail(CLOSED, "1"),
    ],
)
def test_mistaken_mails_are_found(wrong: Json) -> None:
    assert {each.kind for each in mistaken_mails(model(), {"1": wrong})} == {"wrong"}


@pytest.mark.parametrize(("number", "kinds"), [(0, ["lost"]), (1, ["lost"]), (3, ["duplicated", "duplicated"])])
def test_missing_and_surplus_mails_are_found(number: int, kinds: list[str]) -> None:
    mails = {str(n): mail(ANN, str(n)) for n in range(number)}
    assert [each.kind for each in miscounted_mails(model(), mails)] == kinds


def test_a_mail_to_nobody_who_expects_one_is_found() -> None:
    mails = {id: mail(of, id) for id, of in (("1", ANN), ("2", ANN), ("3", BEN))}
    assert [(each.kind, each.id) for each in miscounted_mails(model(), mails)] == [("duplicated", "ben")]


def test_a_repeat_is_identical() -> None:
    assert changed_repeats([RIGHT, RIGHT, mail(ANN, "2")], "id") == []
    assert [each.kind for each in changed_repeats([RIGHT, mail(BEN, "1")], "id")] == ["duplicated"]


def event(of: Json) -> Json:
    about = {name: of[name] for name in ("orderId", "customerId", "storeId")}
    return {"reminderId": of["id"], **about, "productIds": [item["productId"] for item in of["items"]]}


def test_announced_mails_are_right() -> None:
    assert unannounced_mails({"1": RIGHT}, {"1": event(RIGHT)}) == []


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda mails, events: (mails, {}), "lost"),
        (lambda mails, events: ({}, events), "lost"),
        (lambda mails, events: (mails, {"1": {**events["1"], "orderId": "of-ben"}}), "wrong"),
        (lambda mails, events: (mails, {"1": {**events["1"], "productIds": ["p2"]}}), "wrong"),
    ],
)
def test_unannounced_mails_are_found(change: Callable[[Json, Json], tuple[Json, Json]], kind: str) -> None:
    assert [each.kind for each in unannounced_mails(*change({"1": RIGHT}, {"1": event(RIGHT)}))] == [kind]
