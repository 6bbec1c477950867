"""Consume commands about reminders."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from consumers.services import Services
from domain.commands import Outcome
from messaging.decoding import Received
from messaging.reminders import ReminderCommand
from storage.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class ReminderConsumer:
    """Ends the reminders of orders whose customers have seen the request.

    Delivered at least once; a repeat changes nothing. A command about an unknown order, or one that the sender
    may not touch, is answered "not-found".
    """

    services: Services

    async def __call__(self, batch: Sequence[Received[ReminderCommand]]) -> None:
        """Apply a batch."""
        await self.services.transactions.run(partial(_apply, batch))


async def _apply(batch: Sequence[Received[ReminderCommand]], work: UnitOfWork) -> None:
    reminders = work.repositories.reminders
    ids = {received.message.customer_order_id for received in batch}
    orders = {order.id: order for order in await reminders.of_ids(ids, work.session)}
    changed = set()
    for received in batch:
        command = received.message
        id = command.customer_order_id
        mark = received.mark
        if await work.is_answered(command.command_id, id):
            continue
        order = orders.get(id)
        if order is None or not command.may_touch(order.store_id, order.customer.id):
            work.answer(command.command_id, id, Outcome.NOT_FOUND, mark=mark)
        elif order.reminders.is_viewed:
            work.answer(command.command_id, id, Outcome.UNCHANGED, mark=mark)
        else:
            orders[id] = replace(order, reminders=order.reminders.viewed())
            changed.add(id)
            work.answer(command.command_id, id, Outcome.APPLIED, mark=mark)
    await reminders.save([orders[id] for id in changed], work.session)
