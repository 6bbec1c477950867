"""The state of an order's reminders in its document, and the index of due orders."""

from datetime import datetime
from typing import Final

from pymongo import ASCENDING, IndexModel

from domain.orders import ReminderState
from storage.database import Document
from storage.moments import microseconds, moment

INDEX_KEYS: Final = [
    ("statusKey", ASCENDING),
    ("storeId", ASCENDING),
    ("reminder.toCustomer", ASCENDING),
    ("reminder.from", ASCENDING),
    ("reminder.limitSince", ASCENDING),
]
INDEX: Final = IndexModel(
    INDEX_KEYS,
    name="reminder_due_limit",
    partialFilterExpression={"reminder.from": {"$exists": True}},
)
"""Orders whose reminders are over aren't in it. Orders in stores that take no reviews, orders that are too old, and
orders of customers at the limit have their own ranges in it: they cost nothing (with a period of the limit: one index
entry each), and are due at once when that changes."""


def document_of(state: ReminderState, status_since: datetime) -> Document:
    """The state as a document; `from`, the start of the count of days, is missing once it is over."""
    document: Document = {"sent": state.sent, "toCustomer": state.sent_to_customer}
    if state.last is not None:
        document["last"] = microseconds(state.last)
    if state.limit_since is not None:
        document["limitSince"] = microseconds(state.limit_since)
    if state.is_viewed:
        document["viewed"] = True
    if not state.is_over:
        document["from"] = microseconds(state.counted_from(status_since))
    return document


def state_from(document: Document) -> ReminderState:
    """The state in a document."""
    last, limit_since = document.get("last"), document.get("limitSince")
    return ReminderState(
        sent=document["sent"],
        last=None if last is None else moment(last),
        sent_to_customer=document["toCustomer"],
        is_over="from" not in document,
        limit_since=None if limit_since is None else moment(limit_since),
        is_viewed=document.get("viewed", False),
    )
