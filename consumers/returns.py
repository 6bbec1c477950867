"""Consume return commands: returns are stored against orders, and changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import partial
from uuid import UUID, uuid5

import orjson
import structlog
from pymongo.errors import BulkWriteError

from consumers.services import Services
from domain.commands import Outcome
from domain.delivery import OutgoingMessage, Seen
from domain.orders import Order
from domain.returns import DeletedReturn, Return, ReturnRequest, decide, unknown_order, with_return
from domain.returns_refusals import RefusalReason
from domain.reviews import ModerationAction
from domain.stores import GeneralSettings, return_number, return_number_template, return_series
from messaging.decoding import RawRecord, Received, position_of
from messaging.envelope import cloud_event_identity, mark_in, of_command
from messaging.events_returns import return_deleted, return_refused, return_told
from messaging.returns import CreateReturn, ReturnCommand, return_request
from messaging.topics import Topic
from storage.audit import AuditEntry
from storage.outcomes import Answer
from storage.returns import ParkedReturn
from storage.returns_documents import RefusedReturn, StoredReturn
from storage.returns_numbers import is_number_taken
from storage.unit_of_work import UnitOfWork

log = structlog.get_logger()

_RETURNS_WITHOUT_ID = UUID("b3b9a5d4-5d4c-5b8e-8e57-2f0f4c7d1a90")


@dataclass(frozen=True, slots=True)
class ReturnRouter:
    """Sends parked commands again once their order is stored. A repeat is known by the id of its return."""

    services: Services

    async def release(self, order_ids: Collection[str]) -> None:
        """Send the commands again that wait for these orders."""
        returns = self.services.returns
        parked = await returns.parked_for(order_ids)
        if parked:
            await self.services.publisher.publish([self._message(each) for each in parked])
            await returns.release(parked)

    def _message(self, parked: ParkedReturn) -> OutgoingMessage:
        message = self.services.message(
            Topic.RETURN_COMMANDS, parked.order_id, "return.create", orjson.loads(parked.value)
        )
        return of_command(message, parked.command_id, parked.mark) if parked.command_id else message


@dataclass(frozen=True, slots=True)
class ReturnConsumer:
    """Stores returns and their changes, never more than was ordered, and deletes them.

    Delivered at least once, effective once. The returns, what is returned of their orders, answers and events of a
    batch are one transaction, and every one of them writes the order: two that are after the same quantity can't
    both get it. A command that comes before its order is parked for an hour.
    """

    services: Services
    router: ReturnRouter

    async def __call__(self, batch: Sequence[Received[ReturnCommand]]) -> None:
        """Apply a batch."""
        requests = await self._with_orders([_request(received) for received in batch])
        orders = await self.services.orders.of_ids({request.order_id for request in requests})
        await self._park_early(requests, [command for _, command in batch], orders)
        settings = await self.services.stores.general()
        while True:
            numbers = await self._numbered(requests, orders, settings)
            try:
                await self.services.transactions.run(partial(self._store, requests, numbers, settings.return_statuses))
            except BulkWriteError as error:
                # Each attempt takes numbers that none had before, so it comes to free ones.
                if not is_number_taken(error):
                    raise
                log.warning("return number taken")
            else:
                return

    async def _store(
        self,
        requests: Sequence[ReturnRequest],
        numbers: Mapping[str, str],
        statuses: Sequence[str],
        work: UnitOfWork,
    ) -> None:
        repositories, session = work.repositories, work.session
        orders = await repositories.orders.of_ids({request.order_id for request in requests}, session)
        returns = await repositories.returns.of_ids({request.id for request in requests}, session)
        keys = [(r.command_id, r.id) for r in requests if r.command_id]
        answered = await repositories.outcomes.answers(keys, session)
        batch = _Batch(self.services, work, orders, returns, numbers, statuses, set(answered))
        for request in requests:
            batch.apply(request)
        await repositories.returns.save(batch.changed_returns.values(), session)
        await repositories.orders.save(batch.changed_orders.values(), session)

    async def report_overdue(self, before: datetime) -> int:
        """Refuse commands parked before that moment: their order never came. Returns how many there were."""
        services = self.services
        waiting = await services.returns.parked_before(before, limit=500)
        known = await services.orders.known({parked.order_id for parked in waiting})
        await self.router.release(known)
        overdue = [parked for parked in waiting if parked.order_id not in known]
        if overdue:
            refusals = [(each, unknown_order(each.order_id)) for each in overdue]
            now = datetime.now(UTC)
            await services.publisher.publish(
                [_refused_event(services, each.id, each.order_id, why, now) for each, why in refusals]
            )
            answers = [
                Answer(each.command_id, each.id, Outcome.REFUSED, why[0].message, each.mark)
                for each, why in refusals
                if each.command_id
            ]
            await services.outcomes.remember(answers, now)
            await services.returns.release(overdue)
        return len(overdue)

    async def _with_orders(self, requests: Sequence[ReturnRequest]) -> list[ReturnRequest]:
        """Requests with the order they are about: for a change, the one its return is stored against."""
        changes = [request.id for request in requests if not request.is_new]
        if not changes:
            return list(requests)
        of_returns = {request.id: request.order_id for request in requests if request.is_new}
        of_returns |= await self.services.returns.order_ids(changes)
        return [r if r.is_new else replace(r, order_id=of_returns.get(r.id, r.order_id)) for r in requests]

    async def _park_early(
        self,
        requests: Sequence[ReturnRequest],
        commands: Sequence[ReturnCommand],
        orders: Mapping[str, Order],
    ) -> None:
        """Park new returns whose order is unknown.

        Parked first, looked up then: the order consumer does it the other way round, so one of the two sees the
        other. What turns out to have its order is sent again at once.
        """
        early = [
            _parked(request, command)
            for request, command in zip(requests, commands, strict=True)
            if isinstance(command, CreateReturn) and request.order_id not in orders
        ]
        if early:
            await self.services.returns.park(early, datetime.now(UTC))
            await self.router.release(await self.services.orders.known({parked.order_id for parked in early}))

    async def _numbered(
        self, requests: Sequence[ReturnRequest], orders: Mapping[str, Order], settings: GeneralSettings
    ) -> dict[str, str]:
        """A number for each new return, from the series of its store and day."""
        fresh = [
            (request, orders[request.order_id]) for request in requests if request.is_new and request.order_id in orders
        ]
        stores = await self.services.stores.of_ids({order.store_id for _, order in fresh if order.store_id})
        of_day: dict[tuple[str | None, date], list[str]] = {}
        for request, order in fresh:
            of_day.setdefault((order.store_id, request.at.date()), []).append(request.id)
        numbers: dict[str, str] = {}
        for (store_id, day), ids in of_day.items():
            template = return_number_template(settings, stores.get(store_id or ""))
            series, number = return_series(template, day), partial(return_number, template, day)
            taken = await self.services.return_numbers.take(series, len(ids), number, store_id)
            numbers |= zip(ids, taken, strict=True)
        return numbers


@dataclass(frozen=True, slots=True)
class _Batch:
    """Orders and returns while the requests of a batch are applied to them, one after the other."""

    services: Services
    work: UnitOfWork
    orders: dict[str, Order]
    returns: dict[str, StoredReturn]
    numbers: Mapping[str, str]
    statuses: Sequence[str]
    answered: set[tuple[str | None, str]]
    changed_orders: dict[str, Order] = field(default_factory=dict)
    changed_returns: dict[str, StoredReturn] = field(default_factory=dict)

    def apply(self, request: ReturnRequest) -> None:
        known, order = self.returns.get(request.id), self.orders.get(request.order_id)
        if known is not None and known.seen.covers(request.source):
            return
        seen = (known.seen if known else Seen()).after(request.source)
        if (request.command_id, request.id) in self.answered:
            if known is not None:
                self._put(replace(known, seen=seen))
            return
        before = known if isinstance(known, Return) else None
        there = None if isinstance(known, RefusedReturn) else known
        decision = decide(request, there, order, self.numbers.get(request.id), self.statuses)
        match decision:
            case None:
                pass  # its order was unknown a moment ago, and the command has been parked
            case list():
                self._put(replace(there, seen=seen) if there else RefusedReturn(request.id, request.at, seen))
                outcome = Outcome.NOT_FOUND if request.is_deletion else Outcome.REFUSED
                self._answer(request, outcome, "; ".join(reason.message for reason in decision))
                self.work.emit([_refused_event(self.services, request.id, request.order_id, decision, request.at)])
            case Return() if decision is known:
                self._answer(request, Outcome.UNCHANGED)
            case Return():
                kind = "ReturnChanged" if before else "ReturnCreated"
                event = self.services.event(decision.order_id, kind, return_told(decision))
                self._apply(request, before, replace(decision, seen=seen), event)
            case DeletedReturn() if before:
                data = return_deleted(before, request.at)
                event = self.services.event(before.order_id, "ReturnDeleted", data)
                self._apply(request, before, replace(decision, seen=seen), event)
                self.work.audit([_audit_entry(request, before)])

    def _apply(
        self, request: ReturnRequest, before: Return | None, after: Return | DeletedReturn, event: OutgoingMessage
    ) -> None:
        self._put(after)
        self._answer(request, Outcome.APPLIED)
        self.work.emit([event])
        # Also when quantities stay: the order's document is what serializes its returns.
        order = with_return(self.orders[request.order_id], before, after if isinstance(after, Return) else None)
        self.orders[order.id] = self.changed_orders[order.id] = order

    def _put(self, stored: StoredReturn) -> None:
        self.returns[stored.id] = self.changed_returns[stored.id] = stored

    def _answer(self, request: ReturnRequest, outcome: Outcome, reason: str | None = None) -> None:
        self.work.answer(request.command_id, request.id, outcome, reason, mark=request.mark)
        if request.command_id:
            self.answered.add((request.command_id, request.id))


def _request(received: Received[ReturnCommand]) -> ReturnRequest:
    id = received.message.return_.id or _derived_id(received.record)
    request = return_request(received.message, id, received.position, received.at)
    return replace(request, mark=mark_in(received.record.headers))


def _audit_entry(request: ReturnRequest, before: Return) -> AuditEntry:
    return AuditEntry(
        at=request.at,
        subject=request.by,
        action=ModerationAction.DELETE,
        store_id=before.store_id,
        command_id=request.command_id,
        return_id=before.id,
    )


def _refused_event(
    services: Services, return_id: str, order_id: str, reasons: Sequence[RefusalReason], at: datetime
) -> OutgoingMessage:
    data = return_refused(return_id, order_id, reasons, at)
    return services.event(order_id or return_id, "ReturnRefused", data)


def _derived_id(record: RawRecord) -> str:
    # Two returns with the same content are two returns, so only the record itself tells them apart.
    identity = cloud_event_identity(record.headers) or f"{record.topic}/{position_of(record)}"
    return str(uuid5(_RETURNS_WITHOUT_ID, identity))


def _parked(request: ReturnRequest, command: CreateReturn) -> ParkedReturn:
    value = command.model_dump(mode="json", by_alias=True, exclude_none=True)
    value["return"]["id"] = request.id
    return ParkedReturn(request.id, request.order_id, orjson.dumps(value), request.command_id, request.mark)
