"""Orders come in, and the returns that were waiting for them go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from consumers.returns import ReturnRouter
from domain.orders import Order, after_event
from domain.timestamps import from_milliseconds
from messaging.dead_letters import dead_letter_message
from messaging.decoding import RawRecord, decoded
from messaging.orders import OrderEvent, order_event
from messaging.publisher import Publisher
from storage.database import Database, Session, in_transaction
from storage.orders import OrderRepository


class OrderConsumer:
    """Keeps the newest state of each order.

    Delivered at least once, late, twice or out of order: all lead to the state of the newest `modifiedDate`, and
    what was returned of the order stays with it.
    """

    def __init__(self, database: Database, orders: OrderRepository, router: ReturnRouter, publisher: Publisher) -> None:
        self._database = database
        self._orders = orders
        self._router = router
        self._publisher = publisher

    async def __call__(self, records: Sequence[RawRecord]) -> None:
        """Take in a batch."""
        good, bad = decoded(records, order_event)
        await self._publisher.publish([dead_letter_message(letter) for letter in bad])
        if not good:
            return
        ids = {event.id for _, (event, _) in good}

        async def work(session: Session) -> None:
            known = await self._orders.of_ids(ids, session)
            await self._orders.save(_news(good, known).values(), session)

        await in_transaction(self._database, work)
        # Written first, looked up then: the return consumer does it the other way round.
        await self._router.release(ids)


def _news(events: Sequence[tuple[RawRecord, tuple[OrderEvent, str]]], known: Mapping[str, Order]) -> dict[str, Order]:
    """The orders that these events change, as they are afterwards."""
    present = dict(known)
    for record, (event, digest) in events:
        told = event.order(record.value or b"", from_milliseconds(record.timestamp))
        present[event.id] = after_event(present.get(event.id), told, digest)
    return {id: order for id, order in present.items() if order is not known.get(id)}
