"""Consume return commands: create, change and delete the returns of orders."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from uuid import UUID, uuid5

import orjson
import structlog
from pymongo.errors import BulkWriteError

from consumers.parking import MOST_OVERDUE
from consumers.returns_batch import RequestKey, ReturnBatch, key_of
from consumers.services import Services
from domain.delivery import in_parts
from domain.orders import Order
from domain.returns import DeletedReturn, Return, ReturnRequest
from domain.returns_numbers import return_number, return_series
from domain.returns_refusals import crowded_order, unknown_order
from domain.stores import GeneralSettings, return_number_template
from domain.timestamps import from_milliseconds
from messaging.decoding import RawRecord, Received, position_of
from messaging.envelope import cloud_event_identity
from messaging.returns import ReturnCommand, parked_return_command, return_request
from storage.returns.documents import StoredReturn
from storage.returns.numbers import is_number_taken
from storage.returns.parking import UNREADABLE, ParkedReturn, WaitingRoom
from storage.shapes import StoredDocumentError, log_damage
from storage.unit_of_work import UnitOfWork

log = structlog.get_logger()

_RETURNS_WITHOUT_ID = UUID("b3b9a5d4-5d4c-5b8e-8e57-2f0f4c7d1a90")

_ORDERS_AT_ONCE = 50
"""Maximum number of orders written in one transaction, with all commands parked for them: an order can have 1 MiB."""

Fresh = tuple[ReturnRequest, ReturnCommand]


@dataclass(frozen=True, slots=True)
class _Work:
    """The work of one transaction."""

    fresh: Sequence[Fresh] = ()
    """New commands, with their requests."""
    order_ids: Collection[str] = ()
    """Orders whose parked commands are to be applied."""
    before: datetime | None = None
    """Commands parked before this moment are given up; None: none are."""


@dataclass(frozen=True, slots=True)
class ReturnConsumer:
    """Creates, changes and deletes returns, never of more than was ordered.

    Every return writes its order, in one transaction with the return, so that of two returns that compete for the same
    quantity only one gets it.

    A command to create a return whose order is unknown is parked for an hour, and so are changes of that return, as
    long as there is room for them: `consumers.returns_batch` has an example. Parked commands take effect before all
    later ones, in the transaction that removes them from the parking; the consumer of orders or the next command runs
    it, whichever comes first. No command is parked if its order is stored: if the order arrives at the same time, the
    two transactions conflict.
    """

    services: Services

    async def __call__(self, batch: Sequence[Received[ReturnCommand]]) -> None:
        """Apply a batch."""
        for part in _by_orders((_request(received), received.message) for received in batch):
            await self._run(_Work(part))

    async def release(self, order_ids: Collection[str]) -> None:
        """Apply the commands parked for these orders, which are stored."""
        waited_for = sorted(await self.services.parked_returns.orders_waited_for(order_ids))
        for part in in_parts(waited_for, _ORDERS_AT_ONCE):
            await self._run(_Work(order_ids=part))

    async def are_overdue(self, before: datetime) -> bool:
        """True if any command was parked before that moment."""
        return await self.services.parked_returns.are_overdue(before)

    async def give_up_overdue(self, before: datetime) -> int:
        """Refuse new returns parked before that moment, and their parked changes, as their order never arrived. Returns
        the number of commands given up; a large number is left to the next call."""
        refused = 0
        async with aclosing(self.services.parked_returns.overdue(before)) as orders:
            async for order_id in orders:
                try:
                    refused += await self._run(_Work(order_ids=[order_id], before=before))
                except StoredDocumentError as error:
                    # This order waits for a repair; the others don't.
                    log_damage("commands that wait for an order can't be decided", id=order_id, error=str(error))
                if refused >= MOST_OVERDUE:
                    break
        return refused

    async def _run(self, wanted: _Work) -> int:
        """Run the work in one transaction; returns the number of commands given up."""
        settings = await self.services.stores.general()
        while True:
            try:
                return await self.services.transactions.run(partial(self._store, wanted, settings, {}))
            except BulkWriteError as error:
                # Each attempt takes new numbers of the series, so it finds free ones in the end.
                if not is_number_taken(error):
                    raise
                log.warning("return number taken")

    async def _store(
        self, wanted: _Work, settings: GeneralSettings, numbers: dict[RequestKey, str], work: UnitOfWork
    ) -> int:
        repositories, session = work.repositories, work.session
        stored, parked = await _load(wanted, work)
        waiting = [(request, each) for each in parked if (request := _parked_request(each))]
        requests = [*(request for request, _ in waiting), *(request for request, _ in wanted.fresh)]
        of_returns = {each.order_id for each in stored.values() if isinstance(each, Return)}
        order_ids = {r.order_id for r in requests} | of_returns
        # Without bodies, which can have 1 MiB each and are not needed here.
        orders = await repositories.orders.of_ids(order_ids, session, with_bodies=False)
        # Numbers are taken outside of the transaction, and kept if it is repeated after a conflict.
        taken = {id for id, each in stored.items() if isinstance(each, Return | DeletedReturn)}
        new = [r for r in requests if r.is_new and key_of(r) not in numbers and r.id not in taken]
        numbers |= await self._take_numbers(new, orders, settings)
        keys = [(r.command_id, r.id) for r in requests if r.command_id]
        answered = set(await repositories.outcomes.answers(keys, session))
        batch = ReturnBatch(self.services, work, orders, stored, numbers, settings.return_statuses, answered)
        released, given_up = _apply_parked(batch, waiting, wanted.before)
        to_park = _apply_fresh(batch, wanted.fresh, parked)
        await repositories.orders.hold_ids({each.order_id for each in to_park}, session)
        await repositories.parked_returns.park(to_park, session)
        await repositories.parked_returns.remove(released, session)
        await repositories.returns.save(batch.changed_returns.values(), session)
        await repositories.orders.save_returned(batch.changed_orders.values(), session)
        return given_up

    async def _take_numbers(
        self, requests: Iterable[ReturnRequest], orders: Mapping[str, Order], settings: GeneralSettings
    ) -> dict[RequestKey, str]:
        """A number for each new return whose order is stored, from the series of its store and day."""
        fresh = [(request, orders[request.order_id]) for request in requests if request.order_id in orders]
        stores = await self.services.stores.of_ids({order.store_id for _, order in fresh if order.store_id})
        of_day: dict[tuple[str | None, date], list[RequestKey]] = {}
        for request, order in fresh:
            of_day.setdefault((order.store_id, request.at.date()), []).append(key_of(request))
        numbers: dict[RequestKey, str] = {}
        for (store_id, day), keys in of_day.items():
            template = return_number_template(settings, stores.get(store_id or ""))
            series, number = return_series(template, day), partial(return_number, template, day)
            taken = await self.services.return_numbers.take(series, len(keys), number, store_id)
            numbers |= zip(keys, taken, strict=True)
        return numbers


def _by_orders(fresh: Iterable[Fresh]) -> Iterator[Sequence[Fresh]]:
    """Split commands, in order, into parts about at most _ORDERS_AT_ONCE orders. A change may name no order."""
    part, orders = list[Fresh](), set[str]()
    for each in fresh:
        order = each[0].order_id or each[0].id
        if order not in orders and len(orders) == _ORDERS_AT_ONCE:
            yield part
            part, orders = [], set()
        part.append(each)
        orders.add(order)
    yield part


async def _load(wanted: _Work, work: UnitOfWork) -> tuple[dict[str, StoredReturn], list[ParkedReturn]]:
    """The stored documents of all returns concerned, by return id, and the commands parked for their orders."""
    repositories, session = work.repositories, work.session
    requests = [request for request, _ in wanted.fresh]
    stored = await repositories.returns.of_ids({request.id for request in requests}, session)
    known = {each.id: each.order_id for each in stored.values() if isinstance(each, Return)}
    changed = {request.id for request in requests if not request.is_new} - known.keys()
    orders = {*wanted.order_ids, *known.values(), *(request.order_id for request in requests if request.order_id)}
    parked = await repositories.parked_returns.about(orders, changed, session)
    if others := {each.id for each in parked} - {request.id for request in requests}:
        stored |= await repositories.returns.of_ids(others, session)
    return stored, parked


def _apply_parked(
    batch: ReturnBatch, waiting: Iterable[tuple[ReturnRequest, ParkedReturn]], before: datetime | None
) -> tuple[list[ParkedReturn], int]:
    """Apply parked commands; returns those to remove from the parking, and how many of them were given up."""
    released, given_up = [], 0
    for unplaced, parked in waiting:
        # A parked command has had no effect yet, even if later records have been applied to its return.
        request = batch.with_order(unplaced)
        if not batch.must_wait(request):
            given_up += request.order_id not in batch.orders
            batch.apply(request)
        elif request.is_new and before is not None and parked.at is not None and parked.at < before:
            given_up += 1
            batch.give_up(request, unknown_order(request.order_id), datetime.now(UTC))
        else:
            batch.note_waiting(request)
            continue
        released.append(parked)
    return released, given_up


def _apply_fresh(batch: ReturnBatch, fresh: Iterable[Fresh], parked: Iterable[ParkedReturn]) -> list[ParkedReturn]:
    """Apply new commands; returns those that have to be parked for their order, after the ones already parked."""
    to_park = []
    room, held = WaitingRoom(parked), {(each.id, each.position) for each in parked}
    for unplaced, command in fresh:
        if batch.is_repeat(unplaced) or (unplaced.id, unplaced.position) in held:
            continue
        request = batch.with_order(unplaced)
        if not batch.must_wait(request):
            batch.apply(request)
        elif not batch.is_answered(request):
            waiting = _to_park(request, command)
            if room.try_add(waiting):
                batch.note_waiting(request)
                to_park.append(waiting)
            else:
                batch.give_up(request, crowded_order(request.order_id), request.at)
    return to_park


def _request(received: Received[ReturnCommand]) -> ReturnRequest:
    id = received.message.return_.id or _derived_id(received.record)
    request = return_request(received.message, id, received.position, received.at)
    return replace(request, mark=received.mark)


def _parked_request(parked: ParkedReturn) -> ReturnRequest | None:
    """The request of a parked command, as of its own record; its order is the one for which it is parked. None if the
    stored value is no command: it waits for its repair, and stops no other."""
    try:
        command = parked_return_command(parked.value)
    except ValueError as error:
        log_damage(UNREADABLE, id=str(parked.key), error=str(error))
        return None
    request = return_request(command, parked.id, parked.position, from_milliseconds(parked.position.timestamp))
    return replace(request, order_id=parked.order_id, command_id=parked.command_id, mark=parked.mark, has_waited=True)


def _derived_id(record: RawRecord) -> str:
    # Returns with the same content are different returns: only the record itself distinguishes them.
    identity = cloud_event_identity(record.headers) or f"{record.topic}/{position_of(record)}"
    return str(uuid5(_RETURNS_WITHOUT_ID, identity))


def _to_park(request: ReturnRequest, command: ReturnCommand) -> ParkedReturn:
    value = command.model_dump(mode="json", by_alias=True, exclude_none=True)
    value["return"]["id"] = request.id
    return ParkedReturn(
        request.id, request.order_id, request.position, orjson.dumps(value), request.command_id, request.mark
    )
