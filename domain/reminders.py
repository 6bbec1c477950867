"""Reminders: the rule by which customers are asked for a review by mail."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID, uuid5

from domain.orders import OrderHeader, ReminderState
from domain.stores import ReminderSettings, Store

PRODUCT: Final = "Product"
"""The entity type under which what was bought is reviewed."""

MOST_ITEMS: Final = 100
"""The most products that a mail names."""

_REMINDERS: Final = UUID("5f0c2f0e-0f3e-5a44-9a35-6d0f3a9a2b71")


class ReviewedProduct(NamedTuple):
    """That a customer has reviewed a product in a store, or without one."""

    store_id: str | None
    customer_id: str
    product_id: str


class Item(NamedTuple):
    """Something bought that can be reviewed."""

    product_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ReviewableOrder(OrderHeader):
    """An order in any status as reminders see it: since when it has that, and the products that can be reviewed."""

    status_since: datetime
    items: tuple[Item, ...]

    @property
    def counted_from(self) -> datetime:
        """The moment from which the days are counted until the next reminder."""
        return self.reminders.counted_from(self.status_since)

    def products(self) -> Iterator[ReviewedProduct]:
        """The reviews that would leave nothing to ask for."""
        if self.customer.id is not None:
            for item in self.items:
                yield ReviewedProduct(self.store_id, self.customer.id, item.product_id)


@dataclass(frozen=True, slots=True)
class Reminder:
    """A mail to ask for reviews of the items. Worked out again, it has the same id."""

    id: str
    to: str
    customer_id: str
    items: tuple[Item, ...]


class Skip(StrEnum):
    """The reason for no reminder."""

    NOT_IN_STATUS = "not-in-status"
    NOT_YET = "not-yet"
    CANCELLED = "order-cancelled"
    NO_CUSTOMER = "no-customer"
    NO_ADDRESS = "no-address"
    NOTHING_TO_REVIEW = "nothing-to-review"
    EVERYTHING_REVIEWED = "everything-reviewed"
    REVIEWS_DISABLED = "reviews-disabled"
    CUSTOMER_LIMIT = "customer-limit"
    MAIL_FAILED = "mail-failed"

    @property
    def is_final(self) -> bool:
        """True if it stays so until an event changes the order."""
        return self in _FINAL


class Decided(NamedTuple):
    """A decision on an order; the order is as it is afterwards."""

    order: ReviewableOrder
    store: Store | None
    decision: Reminder | Skip
    is_changed: bool


_FINAL: Final = frozenset(
    {
        *(Skip.CANCELLED, Skip.NO_CUSTOMER, Skip.NO_ADDRESS, Skip.NOTHING_TO_REVIEW, Skip.EVERYTHING_REVIEWED),
        Skip.MAIL_FAILED,
    }
)


def status_key(status: str) -> str:
    """A status in a form that is the same for any letter case."""
    return status.casefold()


def due_up_to(settings: ReminderSettings, now: datetime) -> datetime:
    """An order is due when its days are counted from this moment or an earlier one."""
    # A day count of 0 must not make an order due again at the moment of its reminder.
    return now - max(timedelta(days=settings.days_in_status), timedelta(microseconds=1))


def takes_reviews(store_id: str | None, store: Store | None) -> bool:
    """True if the order's store takes reviews. Without a store there is no setting, and they are taken."""
    return store_id is None or (store is not None and store.settings.reviews_enabled)


def decide(
    order: ReviewableOrder,
    settings: ReminderSettings,
    store: Store | None,
    reviewed: Collection[ReviewedProduct],
    sent_to_customer: int,
    now: datetime,
) -> Reminder | Skip:
    """The reminder that is due for an order, or why there is none.

    `store` is the order's, None if it isn't registered; `reviewed` holds at least those of the order's products
    that its customer has reviewed; `sent_to_customer` counts the reminders over all orders.
    """
    if status_key(order.status) != status_key(settings.order_status):
        return Skip.NOT_IN_STATUS
    if order.counted_from > due_up_to(settings, now):
        return Skip.NOT_YET
    if order.is_cancelled:
        return Skip.CANCELLED
    customer, address = order.customer, order.customer.address
    if customer.id is None:
        return Skip.NO_CUSTOMER
    if address is None:
        return Skip.NO_ADDRESS
    if not order.items:
        return Skip.NOTHING_TO_REVIEW
    open_items = [i for i in order.items if (order.store_id, customer.id, i.product_id) not in reviewed]
    if not open_items:
        return Skip.EVERYTHING_REVIEWED
    if not takes_reviews(order.store_id, store):
        return Skip.REVIEWS_DISABLED
    if sent_to_customer >= settings.max_emails_per_customer:
        return Skip.CUSTOMER_LIMIT
    id = str(uuid5(_REMINDERS, f"{order.id}/{order.reminders.sent + 1}"))
    return Reminder(id, address, customer.id, tuple(open_items[:MOST_ITEMS]))


def state_after(state: ReminderState, decision: Reminder | Skip, sent_to_customer: int, now: datetime) -> ReminderState:
    """The state of an order after a decision, with what its customer has got then; the same when it has to wait."""
    if isinstance(decision, Reminder):
        return replace(state, sent=state.sent + 1, last=now, sent_to_customer=sent_to_customer)
    if decision is Skip.CUSTOMER_LIMIT:
        return replace(state, sent_to_customer=sent_to_customer)
    return replace(state, is_over=True) if decision.is_final else state


def decide_in_turn(
    orders: Iterable[ReviewableOrder],
    settings: ReminderSettings,
    stores: Mapping[str, Store],
    reviewed: Collection[ReviewedProduct],
    sent: MutableMapping[str, int],
    now: datetime,
) -> Iterator[Decided]:
    """Decide on orders, those that have waited longest first.

    `sent` holds the reminders to each customer, and counts on: a customer with several orders gets no more than the
    limit.
    """
    for order in sorted(orders, key=lambda order: (order.counted_from, order.id)):
        customer_id, store = order.customer.id or "", stores.get(order.store_id or "")
        decision = decide(order, settings, store, reviewed, sent.get(customer_id, 0), now)
        if isinstance(decision, Reminder):
            sent[customer_id] = sent.get(customer_id, 0) + 1
        after = state_after(order.reminders, decision, sent.get(customer_id, 0), now)
        yield Decided(replace(order, reminders=after), store, decision, is_changed=after != order.reminders)


def without_mail(decided: Decided, before: ReminderState) -> Decided:
    """The decision on an order whose mail can't be written; `before` is the state that it was decided on.

    The customer's other orders have been decided on as if it had been sent: the limit still holds.
    """
    order = replace(decided.order, reminders=replace(before, is_over=True))
    return Decided(order, decided.store, Skip.MAIL_FAILED, is_changed=True)
