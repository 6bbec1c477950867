"""Orders as upstream systems tell of them: late, twice, out of order; and the reviews that their purchases verify."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, NamedTuple

from domain.addresses import address_in
from domain.ratings import Entity

_CANCELLED: Final = frozenset({"cancelled", "canceled"})
_MOST_OBSERVATIONS: Final = 500
"""Far more events than an order has; beyond that the oldest are forgotten."""


class Purchase(NamedTuple):
    """That a customer bought an object in a store, or without one."""

    store_id: str | None
    customer_id: str
    entity: Entity


class VerifiableReview(NamedTuple):
    """A review, the purchase that verifies it, and the mark that it has; None where that isn't known."""

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
        """The mail address; None without one that the mailer takes."""
        return address_in((self.email or "").strip())


@dataclass(frozen=True, slots=True)
class ReminderState:
    """The reminders of an order so far.

    `sent` of them were sent, the last at `last`. `sent_to_customer` is how many of the customer's reminders, over all
    orders, counted for the limit when this one was decided on: while the limit is no higher, and the reminder of
    `limit_since` still counts, there is no need to decide again. `is_over` says that there is nothing to ask for as
    the order is now, `is_viewed` that the customer has seen the request: then there never is again.
    """

    sent: int = 0
    last: datetime | None = None
    sent_to_customer: int = 0
    is_over: bool = False
    limit_since: datetime | None = None
    is_viewed: bool = False

    def counted_from(self, status_since: datetime) -> datetime:
        """The moment from which the days are counted until the next reminder."""
        return max(status_since, self.last) if self.last else status_since

    def after_news(self) -> "ReminderState":
        """The state once an event has changed the order: what stood in the way may not any more."""
        return replace(self, sent_to_customer=0, limit_since=None, is_over=self.is_viewed)

    def viewed(self) -> "ReminderState":
        """The state once the customer has seen the request."""
        return replace(self, is_over=True, is_viewed=True)


@dataclass(frozen=True, slots=True)
class OrderHeader:
    """An order without its lines. `reminders` are those to its customer."""

    id: str
    number: str | None
    status: str
    is_cancelled: bool
    store_id: str | None
    customer: Customer
    reminders: ReminderState = field(default_factory=ReminderState, kw_only=True)


NO_BODY: Final = b"null"
"""The JSON of an order that has lost its body, or was read without it."""


@dataclass(frozen=True, slots=True)
class OrderLine:
    """A line item: what was ordered, how many, and at which price each."""

    id: str
    product_id: str | None
    name: str | None
    quantity: int
    price: float | None = None


@dataclass(frozen=True, slots=True)
class Order(OrderHeader):
    """An order as its newest event tells it, with what is returned of it.

    `body` is the event's JSON as it came, all fields. `observations` are the statuses that events told, by their
    `modified`, in that order. `digests` are the contents seen with the present `modified`, so that a repeat of one
    isn't taken for news. `returned` holds the quantity returned by line id. `former_customers` had the order before an
    event that named another one, until their reviews have been looked at.
    """

    modified: datetime
    lines: tuple[OrderLine, ...]
    body: bytes
    observations: tuple[tuple[datetime, str], ...] = ()
    digests: tuple[str, ...] = ()
    returned: Mapping[str, int] = field(default_factory=dict)
    former_customers: tuple[str, ...] = ()

    @property
    def customer_ids(self) -> set[str]:
        """Its customer, and those who had it before."""
        return {id for id in (self.customer.id, *self.former_customers) if id is not None}

    @property
    def status_since(self) -> datetime:
        """The moment of the first event of the present run of the present status."""
        since = self.modified
        for moment, status in reversed(self.observations):
            if moment <= self.modified:
                if status.casefold() != self.status.casefold():
                    break
                since = moment
        return since

    @property
    def products(self) -> list[str | None]:
        """The products that were bought; a line with the quantity 0 is no purchase."""
        return [line.product_id for line in self.lines if line.quantity]

    def ordered(self) -> dict[str, int]:
        """The quantity ordered, by line id."""
        ordered: dict[str, int] = {}
        for line in self.lines:
            ordered[line.id] = ordered.get(line.id, 0) + line.quantity
        return ordered

    def prices(self) -> dict[str, float | None]:
        """The price of one piece, by line id; of several lines with one id, that of the first."""
        return {line.id: line.price for line in reversed(self.lines)}

    def available(self) -> dict[str, int]:
        """The quantity still returnable, by line id; never below 0."""
        return {id: max(0, quantity - self.returned.get(id, 0)) for id, quantity in self.ordered().items()}


def is_cancelled(status: str) -> bool:
    """True for a status whose name means cancelled."""
    return status.casefold() in _CANCELLED


def is_of_other_store(known: Order | None, event: Order) -> bool:
    """True if the event has the id of an order of another store."""
    return known is not None and None not in (known.store_id, event.store_id) and known.store_id != event.store_id


def after_event(known: Order | None, event: Order, digest: str) -> Order:
    """The order once this event is known; the same object when it tells nothing new.

    The newest `modified` wins; among equal ones the later record, unless it repeats one that is known.
    Events lead to one state in whatever order they come, as long as their `modified` differ. A store that is known
    stays, also where an event names none; `is_of_other_store` tells of events that are not to come here.
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
        # The later record's status stands last among those of one moment.
        observations = (*(o for o in observations if o != observation), observation)
        observations = tuple(sorted(observations, key=lambda o: o[0]))
        digests = (*known.digests, digest)
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
    """The reviews whose mark is another than these purchases say, with the mark that they ought to have."""
    marks = ((review, review.purchase in made) for review in reviews)
    return [review._replace(is_verified=mark) for review, mark in marks if mark is not review.is_verified]
