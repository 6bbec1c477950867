"""What is left of a person's things when they are to be forgotten: what the shop has to keep, and nothing of theirs."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from domain.orders import Order
from domain.returns import Return

_ORDER_FIELDS: Final = ("id", "number", "status", "storeId", "createdDate", "modifiedDate")
_ITEM_FIELDS: Final = ("id", "productId", "name", "quantity", "price")


def forgotten_order(order: Order) -> Order:
    """The order with its quantities and prices, and without whoever ordered.

    Its marks stay: the events that are known can't bring the customer back. A newer one can.
    """
    return replace(
        order,
        customer_id=None,
        customer_name=None,
        customer_email=None,
        language_code=None,
        body=_body_without_person(order.body),
    )


def forgotten_return(stored: Return, customer_id: str) -> Return:
    """The return with its quantities, without the customer's words and name; other names stay."""

    def name(by: str | None) -> str | None:
        return None if by == customer_id else by

    return replace(
        stored,
        resolution=None,
        created_by=name(stored.created_by),
        modified_by=name(stored.modified_by),
        lines=tuple(
            replace(line, reason=None, created_by=name(line.created_by), modified_by=name(line.modified_by))
            for line in stored.lines
        ),
    )


def mark_of(customer_id: str) -> str:
    """By what an erasure is known without naming whom it was about: the SHA-256 of the id, hexadecimal."""
    return sha256(customer_id.encode()).hexdigest()


def people_in(value: Any) -> set[str]:
    """The customers that a message is about: its `userId` and `customerId`, in an object or an array of them."""
    if isinstance(value, list):
        return {person for each in value for person in people_in(each)}
    if not isinstance(value, Mapping):
        return set()
    return {value[name] for name in ("userId", "customerId") if isinstance(value.get(name), str) and value[name]}


def _body_without_person(body: bytes) -> bytes:
    told = json.loads(body)
    items = told.get("items")
    kept = _only(told, _ORDER_FIELDS)
    if isinstance(items, list):
        kept["items"] = [_only(item, _ITEM_FIELDS) for item in items if isinstance(item, Mapping)]
    return json.dumps(kept, ensure_ascii=False).encode()


def _only(told: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: told[name] for name in names if name in told}
