"""Consume order events, and apply the return commands that were parked for their orders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import structlog
from pymongo.errors import BulkWriteError

from consumers.purchases import verify_customers
from consumers.returns import ReturnConsumer
from consumers.services import Services
from domain.orders import Order, after_event, is_of_other_store
from domain.timestamps import from_milliseconds
from messaging.dead_letters_codes import DeadLetterCode
from messaging.decoding import DeadLetter, InvalidMessageError, Received, first_published
from messaging.orders import OrderEvent
from storage.returns_numbers import is_number_taken
from storage.unit_of_work import UnitOfWork

log = structlog.get_logger()

ReceivedOrder = Received[tuple[OrderEvent, str]]


@dataclass(frozen=True, slots=True)
class OrderConsumer:
    """Keeps the newest state of each order.

    Delivered at least once, late, twice or out of order: all lead to the state of the newest `modifiedDate`, and
    what was returned of the order stays with it. An event without one is as old as its record, a replayed one as the
    record that became a dead letter; one from a time to come is a dead letter. An id is one store's: so is an event of
    another's.
    The reviews that the order verifies, or doesn't any more, follow, and so do its returns when it gets a store.
    """

    services: Services
    returns: ReturnConsumer

    async def __call__(self, batch: Sequence[ReceivedOrder]) -> list[DeadLetter]:
        """Store a batch; returns the events that are refused."""
        orders, refused = await self.services.transactions.run(partial(_store, batch))
        await self._give_stores(orders)
        # Once they are stored: from then on nothing is parked for them.
        await self.returns.release({event.id for _, (event, _) in batch})
        # What the events have changed before a restart isn't known any more: the reviews of all are looked at.
        await verify_customers(self.services.purchases, {id for order in orders for id in order.customer_ids})
        await self.services.orders.forget_former_customers(orders)
        return refused

    async def _give_stores(self, orders: Sequence[Order]) -> None:
        """Give returns that were made before their order had a store that one. Where another return has the number
        there, it stays without."""
        try:
            await self.services.returns.give_stores({order.id: order.store_id for order in orders if order.store_id})
        except BulkWriteError as error:
            if not is_number_taken(error):
                raise
            log.warning("return stays without a store: its number is taken there")


async def _store(events: Sequence[ReceivedOrder], work: UnitOfWork) -> tuple[list[Order], list[DeadLetter]]:
    """Store the orders; returns those that the events are about as they are now, and the events that are refused."""
    orders = work.repositories.orders
    known = await orders.of_ids({event.id for _, (event, _) in events}, work.session)
    news, refused = _news(events, known)
    await orders.save(news.values(), work.session)
    return list((known | news).values()), refused


def _news(events: Sequence[ReceivedOrder], known: Mapping[str, Order]) -> tuple[dict[str, Order], list[DeadLetter]]:
    """The orders that these events change, as they are afterwards, and the events that are refused."""
    present, refused, now = dict(known), [], datetime.now(UTC)
    for received in events:
        record, (event, digest) = received
        told = event.order(record.value or b"", from_milliseconds(first_published(record)))
        before = present.get(event.id)
        # Of records that are written with the time of something past, what has come by now has come.
        if error := event.refusal(max(received.at, now)):
            refused.append(DeadLetter(record, error))
        elif is_of_other_store(before, told):
            taken = InvalidMessageError(DeadLetterCode.ID_TAKEN, "The id is that of another store's order")
            refused.append(DeadLetter(record, taken))
        else:
            present[event.id] = after_event(before, told, digest)
    return {id: order for id, order in present.items() if order is not known.get(id)}, refused
