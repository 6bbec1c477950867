"""Checks mail commands: each is about the right order, customer, store and products, and has one event."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from tests.chaos.difference import Difference, Kind
from tests.chaos.model import CLOSED_STORE, MAX_MAILS, Json, Model
from tests.support.service import Service, kind_of

COMPLETE = "Complete"
"""The status of orders that customers are asked about."""

Mails = Mapping[str, Json]
"""Mail commands by id."""


async def wrong_mails(service: Service, model: Model) -> list[Difference]:
    """Each customer was sent the expected number of mails, each of them about an order that the customer completed, and
    each was announced."""
    records = await service.records("mail-commands")
    events = [record for record in await service.records("events") if kind_of(record) == "ReminderRequested"]
    mails = {mail["id"]: mail for mail in values(records)}
    return [
        *changed_repeats(values(records), "id"),
        *changed_repeats(values(events), "reminderId"),
        *(
            Difference("wrong", value["customerId"], f"mail with the key {record.key!r}: {value}")
            for record, value in zip(records, values(records), strict=True)
            if record.key != value["customerId"].encode()
        ),
        *miscounted_mails(model, mails),
        *mistaken_mails(model, mails),
        *unannounced_mails(mails, {event["reminderId"]: event for event in values(events)}),
    ]


def values(records: Iterable[Any]) -> list[Json]:
    """The JSON values of records."""
    return [json.loads(record.value) for record in records]


def changed_repeats(bodies: Iterable[Json], id_field: str) -> list[Difference]:
    """Messages with the id of an earlier one and other content: only an identical one is a repeat."""
    first, found = dict[str, Json](), list[Difference]()
    for body in bodies:
        if first.setdefault(body[id_field], body) != body:
            found.append(Difference("duplicated", body["customerId"], f"{body} has the id of {first[body[id_field]]}"))
    return found


def miscounted_mails(model: Model, mails: Mails) -> list[Difference]:
    """Customers with another number of mails than expected, and orders with more than a customer may get."""
    sent, found = Counter(mail["customerId"] for mail in mails.values()), list[Difference]()
    for customer in sent.keys() | model.mails.keys():
        if (actual := sent[customer]) != (expected := model.mails[customer]):
            kind: Kind = "lost" if actual < expected else "duplicated"
            found.append(Difference(kind, customer, f"{actual} mails, expected {expected}"))
    by_order = Counter(mail["orderId"] for mail in mails.values())
    return found + [
        Difference("duplicated", order, f"{n} mails about one order") for order, n in by_order.items() if n > MAX_MAILS
    ]


def mistaken_mails(model: Model, mails: Mails) -> list[Difference]:
    """Mails about no completed order of a known customer, or whose address, customer, store, number, products or text
    aren't those of the order."""
    found = []
    for id, mail in mails.items():
        order = model.orders.get(mail["orderId"])
        newest = order.newest if order else {}
        if newest.get("status") != COMPLETE or newest.get("storeId") == CLOSED_STORE:
            found.append(Difference("wrong", mail["customerId"], f"mail {id} about {newest or mail['orderId']}"))
            continue
        expected = {
            "template": "OrderReviewRequest",
            "to": newest["customerEmail"],
            "customerId": newest["customerId"],
            "storeId": newest.get("storeId"),
            "orderNumber": newest["number"],
            "items": sorted((item["productId"], item["name"]) for item in newest["items"]),
        }
        actual = {**mail, "items": sorted((item["productId"], item["name"]) for item in mail["items"])}
        actual = {name: actual[name] for name in expected}
        if actual != expected:
            found.append(Difference("wrong", mail["customerId"], f"mail {id} {actual}, expected {expected}"))
        names = [newest["number"], *(item["name"] for item in newest["items"])]
        if missing := [name for name in names for part in ("text", "html") if name not in mail[part]]:
            found.append(Difference("wrong", mail["customerId"], f"mail {id} doesn't name {missing}: {mail['text']}"))
    return found


def unannounced_mails(mails: Mails, events: Mapping[str, Json]) -> list[Difference]:
    """Mails without an event about the same order, customer, store and products, and events without a mail. `events`:
    by id of their mail."""
    found: dict[str, list[Difference]] = defaultdict(list)
    for id in mails.keys() - events.keys():
        found[id].append(Difference("lost", mails[id]["customerId"], f"no event of mail {id}"))
    for id in events.keys() - mails.keys():
        found[id].append(Difference("lost", events[id]["customerId"], f"no mail of the event {events[id]}"))
    for id in mails.keys() & events.keys():
        mail, event = mails[id], events[id]
        expected = {name: mail[name] for name in ("orderId", "customerId", "storeId")}
        expected["productIds"] = [item["productId"] for item in mail["items"]]
        if (actual := {name: event[name] for name in expected}) != expected:
            found[id].append(Difference("wrong", mail["customerId"], f"event {actual} of mail {id}: {expected}"))
    return [difference for id in sorted(found) for difference in found[id]]
