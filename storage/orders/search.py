"""The search for orders, and its filter in MongoDB."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from pymongo import DESCENDING

from storage.database import Document
from storage.keyset import after_row
from storage.moments import microseconds
from storage.queries import one_of

NEWEST: Final = [("modified", DESCENDING), ("_id", DESCENDING)]
"""The order of every list of orders: by their last event, newest first."""


class OrderPosition(NamedTuple):
    """The position of an order in a list; an order that has lost its date comes last."""

    modified: datetime | None
    id: str


@dataclass(frozen=True, slots=True)
class OrderSearch:
    """Search criteria: an order must meet all that are set."""

    ids: Collection[str] | None = None
    customer_id: str | None = None
    number: str | None = None
    keyword: str | None = None
    """The id, the number or the customer's id, exactly."""
    store_id: str | None = None
    stores: Collection[str] | None = None
    """Limits the search to what belongs to one of them."""
    after: OrderPosition | None = None
    """The page begins after this position."""
    take: int = 20
    """The number of orders on the page, at least 1."""


@dataclass(frozen=True, slots=True)
class OrderPage:
    """One page of a list."""

    sizes: Mapping[str, int]
    """The stored size in bytes of each order by its id, in the order of the page."""
    end: OrderPosition | None
    """The position of the last order, if more follow."""


def criteria(search: OrderSearch) -> Document:
    """The MongoDB filter for a search."""
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
        every += after_row(NEWEST, [None if modified is None else microseconds(modified), search.after.id])
    return {**conditions, "$and": every} if every else conditions
