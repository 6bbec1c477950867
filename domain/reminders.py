"""Reminders: the rule by which customers are asked for a review by mail."""

from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID, uuid5

from domain.orders import OrderHeader, ReminderState
from domain.stores import ReminderSettings, Store

PRODUCT: Final = "Product"
"""The entity type under which purchased products are reviewed."""

MOST_ITEMS: Final = 100
"""Maximum number of products in a mail."""

MOST_TIMES: Final = 1_000
"""Maximum number of a customer's reminders whose times are kept: the highest limit."""

_REMINDERS: Final = UUID("5f0c2f0e-0f3e-5a44-9a35-6d0f3a9a2b71")


class ReviewedProduct(NamedTuple):
    """A product that a customer has reviewed in a store, or without a store."""

    store_id: str | None
    customer_id: str
    product_id: str


class ProductInStore(NamedTuple):
    """A product in a store, or without a store."""

    store_id: str | None
    product_id: str


class Item(NamedTuple):
    """A purchased product that can be reviewed, and its order line."""

    product_id: str
    name: str
    line_id: str = ""


@dataclass(frozen=True, slots=True)
class SentReminders:
    """The reminders to one customer over all orders: their number, and the times of the latest, in ascending order."""

    count: int = 0
    times: tuple[datetime, ...] = ()

    def after(self, now: datetime) -> "SentReminders":
        """The reminders after one more at that moment."""
        return SentReminders(self.count + 1, tuple(sorted((*self.times, now)))[-MOST_TIMES:])

    def counted(self, settings: ReminderSettings, now: datetime) -> int:
        """The number of reminders that count for the limit: all, or those within its period."""
        if settings.limit_period_days is None:
            return self.count
        since = _moment_before(now, timedelta(days=settings.limit_period_days))
        return sum(since < at for at in self.times)

    def limit_since(self, settings: ReminderSettings) -> datetime | None:
        """The time of the reminder that has to leave the limit's period before another may be sent."""
        limit = settings.max_emails_per_customer
        return self.times[-limit] if 0 < limit <= len(self.times) else None


@dataclass(frozen=True, slots=True)
class ReviewableOrder(OrderHeader):
    """An order in any status, with the start of that status and the products that can be reviewed."""

    status_since: datetime
    items: tuple[Item, ...]

    @property
    def counted_from(self) -> datetime:
        """The moment from which the days until the next reminder are counted."""
        return self.reminders.counted_from(self.status_since)

    def products(self) -> Iterator[ReviewedProduct]:
        """The reviews that would leave nothing to ask for; none without a customer id."""
        if self.customer.id is not None:
            for item in self.items:
                yield ReviewedProduct(self.store_id, self.customer.id, item.product_id)

    def products_in_stores(self) -> Iterator[ProductInStore]:
        """The products, in the order's store."""
        return (ProductInStore(self.store_id, item.product_id) for item in self.items)


@dataclass(frozen=True, slots=True)
class Reminder:
    """A mail that asks for reviews of the items. Its id is the same whenever it is computed."""

    id: str
    to: str
    customer_id: str
    items: tuple[Item, ...]


class Skip(StrEnum):
    """The reason for sending no reminder."""

    NOT_IN_STATUS = "not-in-status"
    NOT_YET = "not-yet"
    TOO_OLD = "too-old"
    VIEWED = "request-viewed"
    CANCELLED = "order-cancelled"
    NO_CUSTOMER = "no-customer"
    NO_ADDRESS = "no-address"
    NOTHING_TO_REVIEW = "nothing-to-review"
    EVERYTHING_REVIEWED = "everything-reviewed"
    PRODUCTS_DISABLED = "products-disabled"
    REVIEWS_DISABLED = "reviews-disabled"
    NO_SENDER = "no-sender"
    CUSTOMER_LIMIT = "customer-limit"
    MAIL_FAILED = "mail-failed"
    OVER = "over"

    @property
    def is_final(self) -> bool:
        """True if the reason holds until an event changes the order."""
        return self in _FINAL


class Decided(NamedTuple):
    """A decision on an order, and the order after it."""

    order: ReviewableOrder
    store: Store | None
    decision: Reminder | Skip
    is_changed: bool


_FINAL: Final = frozenset(
    {
        *(Skip.CANCELLED, Skip.NO_CUSTOMER, Skip.NO_ADDRESS, Skip.NOTHING_TO_REVIEW, Skip.EVERYTHING_REVIEWED),
        *(Skip.TOO_OLD, Skip.VIEWED, Skip.PRODUCTS_DISABLED, Skip.MAIL_FAILED, Skip.OVER),
    }
)


def status_key(status: str) -> str:
    """A status in a form without letter case, for comparisons."""
    return status.casefold()


def latest_counted_from(settings: ReminderSettings, now: datetime) -> datetime:
    """The latest `counted_from` with which an order is due."""
    # With 0 days, an order must not be due again at the moment of its reminder.
    return _moment_before(now, max(timedelta(days=settings.days_in_status), timedelta(microseconds=1)))


def due_date(order: ReviewableOrder, settings: ReminderSettings) -> datetime | None:
    """The moment at which an order becomes due; None if that is after the year 9999."""
    try:
        return order.counted_from + timedelta(days=settings.days_in_status)
    except OverflowError:
        return None


def earliest_status_since(settings: ReminderSettings, now: datetime) -> datetime:
    """The earliest `status_since` with which an order is due; older ones never get a reminder."""
    return _moment_before(now, timedelta(days=settings.days_in_status + settings.max_age_days))


def _moment_before(now: datetime, age: timedelta) -> datetime:
    """The moment `age` before `now`; the first moment of the year 1 if that is earlier."""
    try:
        return now - age
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def takes_reviews(store_id: str | None, store: Store | None) -> bool:
    """True if the order's store accepts reviews. An order without a store has no such setting: reviews are accepted."""
    return store_id is None or (store is not None and store.settings.reviews_enabled)


@dataclass(frozen=True, slots=True)
class ReminderRun:
    """The moment and the settings of a run, and what it knows about the orders that it decides on."""

    settings: ReminderSettings
    now: datetime
    stores: Mapping[str, Store] = field(default_factory=dict)
    """The registered stores of the orders, by id."""
    reviewed: Collection[ReviewedProduct] = frozenset()
    """Includes all products of the orders that their customers have reviewed."""
    closed: Collection[ProductInStore] = frozenset()
    """Includes all products of the orders that accept no reviews."""
    needs_email: bool = False
    """True if mails have no other sender than their store's address."""

    def store_of(self, order: ReviewableOrder) -> Store | None:
        """The store of an order, if it is registered."""
        return self.stores.get(order.store_id or "")


def decide(order: ReviewableOrder, sent: SentReminders, run: ReminderRun) -> Reminder | Skip:
    """The reminder that is due for an order, or the reason for sending none. `sent` are the customer's reminders over
    all orders."""
    settings, now, store = run.settings, run.now, run.store_of(order)
    if status_key(order.status) != status_key(settings.order_status):
        return Skip.NOT_IN_STATUS
    if order.reminders.is_viewed:
        return Skip.VIEWED
    if order.counted_from > latest_counted_from(settings, now):
        return Skip.NOT_YET
    if order.status_since < earliest_status_since(settings, now):
        return Skip.TOO_OLD
    if order.is_cancelled:
        return Skip.CANCELLED
    customer, address = order.customer, order.customer.address
    if customer.id is None:
        return Skip.NO_CUSTOMER
    if address is None:
        return Skip.NO_ADDRESS
    if not order.items:
        return Skip.NOTHING_TO_REVIEW
    open_items = [i for i in order.items if (order.store_id, customer.id, i.product_id) not in run.reviewed]
    if not open_items:
        return Skip.EVERYTHING_REVIEWED
    open_items = [item for item in open_items if (order.store_id, item.product_id) not in run.closed]
    if not open_items:
        return Skip.PRODUCTS_DISABLED
    if not takes_reviews(order.store_id, store):
        return Skip.REVIEWS_DISABLED
    if run.needs_email and not (store and store.email):
        return Skip.NO_SENDER
    if sent.counted(settings, now) >= settings.max_emails_per_customer:
        return Skip.CUSTOMER_LIMIT
    if order.reminders.is_over:
        # Decided before, for a reason that no longer holds: runs skip the order until an event changes it.
        return Skip.OVER
    id = str(uuid5(_REMINDERS, f"{order.id}/{order.reminders.sent + 1}"))
    return Reminder(id, address, customer.id, tuple(open_items[:MOST_ITEMS]))


def state_after(
    state: ReminderState, decision: Reminder | Skip, sent: SentReminders, run: ReminderRun
) -> ReminderState:
    """The state of an order after a decision, given its customer's reminders by then; the same if it has to wait."""
    counted, limit_since = sent.counted(run.settings, run.now), sent.limit_since(run.settings)
    if isinstance(decision, Reminder):
        return replace(state, sent=state.sent + 1, last=run.now, sent_to_customer=counted, limit_since=limit_since)
    if decision is Skip.CUSTOMER_LIMIT:
        return replace(state, sent_to_customer=counted, limit_since=limit_since)
    return replace(state, is_over=True) if decision.is_final else state


def decide_in_turn(
    orders: Iterable[ReviewableOrder], sent: MutableMapping[str, SentReminders], run: ReminderRun
) -> Iterator[Decided]:
    """Decide on orders, those that have waited longest first.

    `sent` holds the reminders to each customer and is updated, so that a customer with several orders gets no more than
    the limit.
    """
    none = SentReminders()
    for order in sorted(orders, key=lambda order: (order.counted_from, order.id)):
        customer_id = order.customer.id or ""
        decision = decide(order, sent.get(customer_id, none), run)
        if isinstance(decision, Reminder):
            sent[customer_id] = sent.get(customer_id, none).after(run.now)
        after = state_after(order.reminders, decision, sent.get(customer_id, none), run)
        changed = replace(order, reminders=after)
        yield Decided(changed, run.store_of(order), decision, is_changed=after != order.reminders)


def without_mail(decided: Decided, before: ReminderState) -> Decided:
    """The decision on an order whose mail can't be written; `before` is its state before the decision.

    The customer's later orders were decided on as if the mail had been sent, and have to be decided on again.
    """
    order = replace(decided.order, reminders=replace(before, is_over=True))
    return Decided(order, decided.store, Skip.MAIL_FAILED, is_changed=True)
