"""Messages about requests for reviews."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from domain.permissions import is_within
from messaging.schemas import ClosedMessage, Id, OptionalId, Stores


class ViewedRequest(ClosedMessage):
    """The customer has seen the request for reviews of an order: they get no further reminder for it."""

    customer_order_id: Annotated[Id, Field(description="The order's `id`")]
    store_id: Annotated[OptionalId, Field(description="If given, must be the store of the order")] = None


class ReminderCommand(ViewedRequest):
    """Record that a customer has seen the request for reviews of an order."""

    action: Literal["viewed"]
    customer_id: Annotated[OptionalId, Field(description="If given, must be the customer of the order")] = None
    stores: Stores = None
    command_id: OptionalId = None

    def may_touch(self, store_id: str | None, customer_id: str | None) -> bool:
        """True if an order of this store (None: without one) and customer is meant, and the sender may change it."""
        is_meant = self.store_id in (None, store_id) and self.customer_id in (None, customer_id)
        return is_meant and is_within(self.stores, store_id)


VIEWED_REQUEST: TypeAdapter[ViewedRequest] = TypeAdapter(ViewedRequest)
REMINDER_COMMAND: TypeAdapter[ReminderCommand] = TypeAdapter(ReminderCommand)
