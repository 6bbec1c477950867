"""The search for orders, and its filter in MongoDB."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from pymongo import DESCENDING

from storage.database import Document, one_of
from storage.keyset import behind
from storage.moments import microseconds

NEWEST: Final = [("modified", DESCENDING), ("_id", DESCENDING)]
"""The order of every list of orders: as of their last event."""


class OrderPosition(NamedTuple):
    """The position of an order in a list; one that has lost its date comes last."""

    modified: datetime | None
    id: str


@dataclass(frozen=True, slots=True)
class OrderSearch:
    """Criteria of a search, of which every one that is set must hold.

    `keyword` is the id, the number or the customer's id, exactly. `stores` bounds the search to what belongs to one of
    them. The page begins behind the position `after`, and has `take` orders, 1 at least.
    """

    ids: Collection[str] | None = None
    customer_id: str | None = None
    number: str | None = None
    keyword: str | None = None
    store_id: str | None = None
    stores: Collection[str] | None = None
    after: OrderPosition | None = None
    take: int = 20


@dataclass(frozen=True, slots=True)
class OrderPage:
    """One page of a list: the size in bytes of each order as it is stored, by its id, in their order. `end` is the
    position of the last one, if there are more behind it."""

    sizes: Mapping[str, int]
    end: OrderPosition | None = None


def criteria(search: OrderSearch) -> Document:
    """The filter of MongoDB for a search."""
    conditions: Document = {}
    if search.ids is not None:
        conditions["_id"] = one_of(search.ids)
    if search.customer_id is not None:
        conditions["customerId"] = search.customer_id
    if search.number is not None:
        conditions["number"] = search.number
    every: list[Document] = []
    if search.store_id is not None:
        every.append({"storeId": search.store_id})
    if search.stores is not None:
        every.append({"storeId": one_of(search.stores)})
    if search.keyword is not None:
        every.append({"$or": [{name: search.keyword} for name in ("_id", "number", "customerId")]})
    if search.after is not None:
        modified = search.after.modified
        every += behind(NEWEST, [None if modified is None else microseconds(modified), search.after.id])
    return {**conditions, "$and": every} if every else conditions
