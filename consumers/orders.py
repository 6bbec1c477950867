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
from storage.returns.numbers import is_number_taken
from storage.unit_of_work import UnitOfWork

log = structlog.get_logger()

ReceivedOrder = Received[tuple[OrderEvent, str]]


@dataclass(frozen=True, slots=True)
class OrderConsumer:
    """Keeps the newest state of each order.

    Delivered at least once, possibly late or out of order: the newest `modifiedDate` wins, and the quantities returned
    of the order stay. An event without that date is as old as its record, or, in a replay, as the record that became a
    dead letter. An event from the future, by its date or by that of its record, becomes a dead letter, and so does one
    with the id of another store's order.
    A damaged order is restored by its newest event, sent again, or a newer one; without status or lines, by any.
    The verification of reviews by purchases is updated, and if the order gets a store, so do its returns.
    """

    services: Services
    returns: ReturnConsumer

    async def __call__(self, batch: Sequence[ReceivedOrder]) -> list[DeadLetter]:
        """Store a batch; returns dead letters for the refused events."""
        orders, refused = await self.services.transactions.run(partial(_store, batch))
        await self._give_stores(orders)
        # After storing the orders: nothing is parked for a stored order.
        await self.returns.release({event.id for _, (event, _) in batch})
        # The reviews of all their customers: after a restart it isn't known which orders the events had changed.
        await verify_customers(self.services.purchases, {id for order in orders for id in order.customer_ids})
        await self.services.orders.forget_former_customers(orders)
        return refused

    async def _give_stores(self, orders: Sequence[Order]) -> None:
        """Give returns that were created before their order had a store that store. A return stays without one if its
        number is taken there."""
        try:
            await self.services.returns.give_stores({order.id: order.store_id for order in orders if order.store_id})
        except BulkWriteError as error:
            if not is_number_taken(error):
                raise
            log.warning("return stays without a store: its number is taken in the order's store")


async def _store(events: Sequence[ReceivedOrder], work: UnitOfWork) -> tuple[list[Order], list[DeadLetter]]:
    """Store the orders; returns all orders of the events, in their new state, and the refused events."""
    orders = work.repositories.orders
    known = await orders.before_events({event.id for _, (event, _) in events}, work.session)
    changed, refused = apply_events(events, known)
    await orders.save(changed.values(), work.session)
    return list((known | changed).values()), refused


def apply_events(
    events: Sequence[ReceivedOrder], known: Mapping[str, Order]
) -> tuple[dict[str, Order], list[DeadLetter]]:
    """The orders that these events change, in their new state, and the refused events."""
    present, refused, now = dict(known), [], datetime.now(UTC)
    for record, (event, digest) in events:
        reported = event.order(record.value or b"", from_milliseconds(first_published(record)))
        before = present.get(event.id)
        # Whatever dates it, the event or its record: until then, no later event would count.
        if error := event.refusal(reported.modified, now):
            refused.append(DeadLetter(record, error))
        elif is_of_other_store(before, reported):
            id_taken = InvalidMessageError(DeadLetterCode.ID_TAKEN, "The id belongs to an order of another store")
            refused.append(DeadLetter(record, id_taken))
        else:
            present[event.id] = after_event(before, reported, digest)
    return {id: order for id, order in present.items() if order is not known.get(id)}, refused
