"""Messages about orders."""

import re
from datetime import UTC, datetime, time, timedelta
from hashlib import blake2b
from typing import Annotated, Final

import orjson
from pydantic import Field, TypeAdapter, ValidatorFunctionWrapHandler, WrapValidator

from domain.orders import Customer, Order, OrderLine, is_cancelled
from messaging.dead_letters_codes import DeadLetterCode
from messaging.decoding import InvalidMessageError
from messaging.json_values import without_bom
from messaging.orders_foreign import order_fields
from messaging.reading import Reader
from messaging.reading_errors import InputError
from messaging.schemas import EMPTY_IS_MISSING, Id, Message, Moment, Name, NotBlank, OptionalId

_DAY: Final = re.compile(r"\s*(\d{4}-\d{2}-\d{2})\s*")
_UNTIL_DAY_END: Final = timedelta(days=1) - timedelta(milliseconds=1)
_MAX_AHEAD: Final = timedelta(days=1)
"""Maximum time that a change may be ahead: clocks that report local time as UTC are at most 14 hours ahead."""
_TOO_FAR_AHEAD: Final = (
    "The date is more than a day in the future: until then, later changes of the order would be ignored. Omit it, "
    "or set it to the time of the change"
)
_RECORD_TOO_FAR_AHEAD: Final = (
    "The event has no `modifiedDate`, and the record's timestamp is more than a day in the future: until then, later "
    "changes of the order would be ignored. Correct the clock of the sender, and publish the order's state again"
)


class _Day(datetime):
    """The first moment of a day that was given without a time."""


def _day_or_moment(value: object, read: ValidatorFunctionWrapHandler) -> datetime | None:
    """Also read a day without a time: order systems send those, and the rest of the order must not be lost."""
    day = _DAY.fullmatch(value) if isinstance(value, str) else None
    moment: datetime | None = read(f"{day[1]}T00:00:00Z" if day else value)
    return _Day.combine(moment, time.min, UTC) if day and moment else moment


OrderDate = Annotated[Moment | None, EMPTY_IS_MISSING, WrapValidator(_day_or_moment)]
"""A date and time, or a day, of an order."""


class OrderItem(Message):
    """A line of an order; other fields are stored with the order."""

    id: Id
    product_id: OptionalId = None
    name: Annotated[str, Field(max_length=1_024)] | None = None
    quantity: Annotated[int, Field(ge=0, le=2**31 - 1)]
    price: Annotated[Annotated[float, Field(allow_inf_nan=False)] | None, EMPTY_IS_MISSING] = None


class OrderEvent(Message):
    """An order as it is now; other fields are stored, and shown with its returns. The newest `modifiedDate` wins.

    The schema doesn't say all that is accepted: orders of Shopify and commercetools in their own form, numeric ids,
    quantities and prices as strings, and days without a time. See "The other messages" in docs/kafka.md.
    """

    id: Id
    number: Name | None = None
    status: Annotated[Name, NotBlank]
    is_cancelled: Annotated[bool, Field(description="A `status` of Cancelled or Canceled has the same effect")] = False
    store_id: OptionalId = None
    customer_id: OptionalId = None
    customer_name: Annotated[str, Field(max_length=1_024)] | None = None
    customer_email: Annotated[str, Field(max_length=254)] | None = None
    language_code: Annotated[str, Field(max_length=35)] | None = None
    created_date: OrderDate = None
    modified_date: Annotated[
        OrderDate,
        Field(
            description="At most a day in the future. Missing: when the record was first published; a date without a "
            "time: the same, but within that day in UTC"
        ),
    ] = None
    items: Annotated[tuple[OrderItem, ...], Field(max_length=10_000, fail_fast=True)] = ()

    def refusal(self, modified: datetime, now: datetime) -> InvalidMessageError | None:
        """The error of an event if `modified`, the time of its change, is too far ahead; None otherwise."""
        if modified - now <= _MAX_AHEAD:
            return None
        if self.modified_date is None:
            return InvalidMessageError(DeadLetterCode.INVALID_TIMESTAMP, _RECORD_TOO_FAR_AHEAD)
        error = InputError("/modifiedDate", "to-come", _TOO_FAR_AHEAD)
        return InvalidMessageError(DeadLetterCode.INVALID_MESSAGE, f"{error.pointer}: {error.message}", [error])

    def order(self, body: bytes, at: datetime) -> Order:
        """The order of the event; `body` is its value as received, `at` the time of the record."""
        return Order(
            id=self.id,
            number=self.number,
            status=self.status,
            is_cancelled=self.is_cancelled or is_cancelled(self.status),
            store_id=self.store_id,
            customer=Customer(self.customer_id, self.customer_name, self.customer_email, self.language_code),
            modified=_modified(self.modified_date, at),
            lines=tuple(OrderLine(i.id, i.product_id, i.name, i.quantity, i.price) for i in self.items),
            body=without_bom(body),
        )


def _modified(given: datetime | None, at: datetime) -> datetime:
    """The time of the change. For a day without a time it is the time of the record, limited to that day in UTC, since
    the sender's time zone is unknown. So changes of a day follow each other (at the same moment the later record
    counts), and those of the next day follow them."""
    if isinstance(given, _Day):
        return min(max(at, given), given + _UNTIL_DAY_END)
    return at if given is None else given


ORDER_EVENT: TypeAdapter[OrderEvent] = TypeAdapter(OrderEvent)
READER: Final = Reader(ORDER_EVENT, prepare=order_fields)


def order_event(value: bytes) -> tuple[OrderEvent, str]:
    """An order event and the digest of its content. Raises InvalidContentError or InvalidMessageError."""
    value = without_bom(value)
    event = READER.read(value).content  # unknown fields are kept
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError as error:
        # Fields without a schema are shown as received, so they must be strict JSON.
        raise InvalidMessageError(DeadLetterCode.INVALID_JSON, f"Not JSON by RFC 8259: {error}") from error
    return event, blake2b(value, digest_size=12).hexdigest()
