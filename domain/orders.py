"""Orders from upstream events that are late, repeated or out of order; and the reviews that their purchases verify."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from domain.addresses import address_in
from domain.ratings import Entity

_CURRENCY: Final = re.compile("[A-Za-z]{3}")
_CANCELLED: Final = frozenset({"cancelled", "canceled"})
_MOST_OBSERVATIONS: Final = 500
"""Maximum number of observed statuses of an order, far more than usual; beyond it the oldest are dropped."""
_MOST_DIGESTS: Final = 500
"""Maximum number of contents of an order with one `modified`; beyond it the oldest are dropped, and may repeat."""


class Purchase(NamedTuple):
    """A customer's purchase of an object in a store, or without a store."""

    store_id: str | None
    customer_id: str
    entity: Entity


class VerifiableReview(NamedTuple):
    """A review, the purchase that would verify it, and its present mark; None if that is unknown."""

    id: str
    purchase: Purchase
    is_verified: bool | None


@dataclass(frozen=True, slots=True)
class Customer:
    """The customer of an order."""

    id: str | None = None
    name: str | None = None
    email: str | None = None
    language_code: str | None = None

    @property
    def address(self) -> str | None:
        """The mail address; None unless the mailer accepts it."""
        return address_in((self.email or "").strip())


@dataclass(frozen=True, slots=True)
class ReminderState:
    """The reminders of an order so far."""

    sent: int = 0
    """Number of reminders sent."""
    last: datetime | None = None
    """Time of the last reminder."""
    sent_to_customer: int = 0
    """Number of the customer's reminders, over all orders, that counted for the limit at the last decision. No new
    decision is needed while the limit is no higher and the reminder of `limit_since` still counts."""
    is_over: bool = False
    """True if there is nothing to ask for in the order's present state."""
    limit_since: datetime | None = None
    """Time of the reminder that has to leave the limit's period before another may be sent."""
    is_viewed: bool = False
    """True if the customer has seen the request: no other is ever sent."""

    def counted_from(self, status_since: datetime) -> datetime:
        """The moment from which the days until the next reminder are counted."""
        return max(status_since, self.last) if self.last else status_since

    def after_news(self) -> "ReminderState":
        """The state after an event has changed the order: obstacles may be gone."""
        return replace(self, sent_to_customer=0, limit_since=None, is_over=self.is_viewed)

    def viewed(self) -> "ReminderState":
        """The state after the customer has seen the request."""
        return replace(self, is_over=True, is_viewed=True)


@dataclass(frozen=True, slots=True)
class OrderHeader:
    """An order without its lines. `reminders` is the state of reminders to its customer."""

    id: str
    number: str | None
    status: str
    is_cancelled: bool
    store_id: str | None
    customer: Customer
    reminders: ReminderState = field(default_factory=ReminderState, kw_only=True)


NO_BODY: Final = b"null"
"""The body, in JSON, of an order that has lost its own or was read without it."""


@dataclass(frozen=True, slots=True)
class OrderLine:
    """A line item of an order; `price` is per piece."""

    id: str
    product_id: str | None
    name: str | None
    quantity: int
    price: float | None = None


@dataclass(frozen=True, slots=True)
class Order(OrderHeader):
    """An order as of its newest event, with the returned quantities."""

    modified: datetime
    lines: tuple[OrderLine, ...]
    body: bytes
    """The event's JSON as received, with all fields."""
    observations: tuple[tuple[datetime, str], ...] = ()
    """The `modified` and the status of all events, sorted by `modified`."""
    digests: tuple[str, ...] = ()
    """Digests of the contents seen with the present `modified`, so that a repeat isn't taken for news."""
    returned: Mapping[str, int] = field(default_factory=dict)
    """Returned quantity by line id."""
    former_customers: tuple[str, ...] = ()
    """Customers that events named before the present one, until their reviews have been checked."""

    @property
    def customer_ids(self) -> set[str]:
        """Its customer and its former customers."""
        return {id for id in (self.customer.id, *self.former_customers) if id is not None}

    @property
    def status_since(self) -> datetime:
        """The time of the first event in the current unbroken run of the current status."""
        since = self.modified
        for moment, status in reversed(self.observations):
            if moment <= self.modified:
                if status.casefold() != self.status.casefold():
                    break
                since = moment
        return since

    @property
    def products(self) -> list[str | None]:
        """The products that were bought; a line with quantity 0 is not a purchase."""
        return [line.product_id for line in self.lines if line.quantity]

    def ordered(self) -> dict[str, int]:
        """The quantity ordered, by line id."""
        ordered: dict[str, int] = {}
        for line in self.lines:
            ordered[line.id] = ordered.get(line.id, 0) + line.quantity
        return ordered

    def prices(self) -> dict[str, float | None]:
        """The price of one piece, by line id; among several lines with one id, that of the first."""
        return {line.id: line.price for line in reversed(self.lines)}

    def available(self) -> dict[str, int]:
        """The quantity that can still be returned, by line id; never below 0."""
        return {id: max(0, quantity - self.returned.get(id, 0)) for id, quantity in self.ordered().items()}


def is_cancelled(status: str) -> bool:
    """True for a status whose name means cancelled."""
    return status.casefold() in _CANCELLED


def is_of_other_store(known: Order | None, event: Order) -> bool:
    """True if the event's id is that of an order in another store."""
    return known is not None and None not in (known.store_id, event.store_id) and known.store_id != event.store_id


def after_event(known: Order | None, event: Order, digest: str) -> Order:
    """The order after this event; the same object if the event brings nothing new.

    The newest `modified` wins; among equal ones the later record, unless it repeats a known one. Events with different
    `modified` lead to the same state in any order. A known store stays, also if an event names none; events for which
    `is_of_other_store` is true must not be passed in.
    """
    observation = (event.modified, event.status)
    if known is None:
        return replace(event, observations=(observation,), digests=(digest,))
    if known.store_id is None and event.store_id is not None:
        known = replace(known, store_id=event.store_id)
    event = replace(event, store_id=known.store_id)
    observations = known.observations
    if observation not in observations:
        observations = tuple(sorted((*observations, observation), key=lambda o: o[0]))[-_MOST_OBSERVATIONS:]
    if event.modified < known.modified:
        if observations == known.observations:
            return known
        return replace(known, observations=observations, reminders=known.reminders.after_news())
    if event.modified == known.modified:
        if digest in known.digests:
            return known
        # Among the observations of one moment, the later record's status comes last.
        observations = (*(o for o in observations if o != observation), observation)
        observations = tuple(sorted(observations, key=lambda o: o[0]))
        digests = (*known.digests, digest)[-_MOST_DIGESTS:]
    else:
        digests = (digest,)
    return replace(
        event,
        observations=observations,
        digests=digests,
        returned=known.returned,
        former_customers=tuple(sorted(known.customer_ids - {event.customer.id})),
        reminders=known.reminders.after_news(),
    )


def to_mark(reviews: Collection[VerifiableReview], made: Collection[Purchase]) -> list[VerifiableReview]:
    """The reviews whose mark differs from the one that these purchases imply, with the mark corrected."""
    marks = ((review, review.purchase in made) for review in reviews)
    return [review._replace(is_verified=mark) for review, mark in marks if mark is not review.is_verified]


def currency_in(event: Mapping[str, Any]) -> str | None:
    """The code of an order's currency, like EUR, by the fields of an event, in any letter case; None if they don't have
    it."""
    fields = {name.casefold(): value for name, value in event.items()}
    total = fields.get("totalprice")  # of commercetools
    named = (fields.get("currency"), total.get("currencyCode") if isinstance(total, Mapping) else None)
    return next((code.upper() for code in named if isinstance(code, str) and _CURRENCY.fullmatch(code)), None)
