"""Orders come in, and the returns that were waiting for them go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from consumers.returns import ReturnRouter
from domain.orders import Order, after_event, is_of_other_store
from domain.timestamps import from_milliseconds
from messaging.dead_letters import dead_letter_message
from messaging.decoding import DeadLetter, InvalidMessageError, RawRecord, decoded
from messaging.kafka.publisher import Publisher
from messaging.orders import OrderEvent, order_event
from storage.database import Database, Session, in_transaction
from storage.orders import OrderRepository


class OrderConsumer:
    """Keeps the newest state of each order.

    Delivered at least once, late, twice or out of order: all lead to the state of the newest `modifiedDate`, and
    what was returned of the order stays with it. An id is one store's: an event of another's is a dead letter.
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

        async def work(session: Session) -> list[DeadLetter]:
            known = await self._orders.of_ids(ids, session)
            news, taken = _news(good, known)
            await self._orders.save(news.values(), session)
            return taken

        taken = await in_transaction(self._database, work)
        await self._publisher.publish([dead_letter_message(letter) for letter in taken])
        # Written first, looked up then: the return consumer does it the other way round.
        await self._router.release(ids)


def _news(
    events: Sequence[tuple[RawRecord, tuple[OrderEvent, str]]], known: Mapping[str, Order]
) -> tuple[dict[str, Order], list[DeadLetter]]:
    """The orders that these events change, as they are afterwards, and the events whose id is another store's."""
    present, taken = dict(known), []
    for record, (event, digest) in events:
        told = event.order(record.value or b"", from_milliseconds(record.timestamp))
        before = present.get(event.id)
        if is_of_other_store(before, told):
            taken.append(DeadLetter(record, InvalidMessageError("id-taken", "The id is that of another store's order")))
        else:
            present[event.id] = after_event(before, told, digest)
    return {id: order for id, order in present.items() if order is not known.get(id)}, taken
