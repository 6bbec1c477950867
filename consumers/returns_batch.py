"""Apply return commands to the orders and returns of one transaction, or find that they have to wait.

Example: return R of order O, which arrives last. Each step has its own `ReturnBatch`:
1. A command creates R: `with_order` sets `created[R] = [O]`. It has to wait (`must_wait`), as O is
   unknown; `note_waiting` sets `awaited[R] = [O]`, and the command is parked.
2. A command changes R: the parked command comes first, as in step 1, and stays parked. `with_order` gives the
   change the order O, from `created`. It has to wait, as `awaited` has O, and is parked.
3. O arrives: the parked commands come in order, and neither has to wait. R is created, then changed; both commands
   leave the parking.
If O doesn't arrive in time, `give_up` refuses the first command. `awaited` is then empty, so the change doesn't wait,
and is refused, as R doesn't exist.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from consumers.services import Services
from domain.commands import Outcome
from domain.delivery import OutgoingMessage, RecordPosition, Seen
from domain.orders import Order
from domain.returns import DeletedReturn, Return, ReturnRequest, decide, with_return
from domain.returns_refusals import RefusalReason
from messaging.events_returns import return_deleted, return_event, return_refused
from storage.audit import AuditAction, AuditEntry
from storage.returns.documents import RefusedReturn, StoredReturn
from storage.unit_of_work import UnitOfWork

_MOST_REASONS: Final = 5
"""Maximum number of reasons in an answer; the event has all of them."""

RequestKey = tuple[str, RecordPosition]
"""A return's id and the record of a request: several can create one return, for orders of different stores."""


@dataclass(frozen=True, slots=True)
class ReturnBatch:
    """Orders and returns while requests are applied to them, one after the other."""

    services: Services
    work: UnitOfWork
    orders: dict[str, Order]
    returns: dict[str, StoredReturn]
    numbers: Mapping[RequestKey, str]
    statuses: Sequence[str]
    answered: set[tuple[str, str]]
    changed_orders: dict[str, Order] = field(default_factory=dict)
    changed_returns: dict[str, StoredReturn] = field(default_factory=dict)
    created: dict[str, list[str]] = field(default_factory=dict)
    """By return id: the orders of the requests so far that create it."""
    awaited: dict[str, list[str]] = field(default_factory=dict)
    """By return id: those of these orders for which its creation waits."""

    def with_order(self, request: ReturnRequest) -> ReturnRequest:
        """The request with its order. That of a change is the order of the stored return, or else the one for which the
        return was to be created."""
        if request.is_new:
            self.created.setdefault(request.id, []).append(request.order_id)
            return request
        known, wanted = self.returns.get(request.id), self.created.get(request.id, [])
        if isinstance(known, Return):
            return replace(request, order_id=known.order_id)
        return request if not wanted or request.order_id in wanted else replace(request, order_id=wanted[-1])

    def must_wait(self, request: ReturnRequest) -> bool:
        """True if the order is unknown, and the request creates a return of it, or changes one that waits for it."""
        return request.order_id not in self.orders and (
            request.is_new or request.order_id in self.awaited.get(request.id, ())
        )

    def note_waiting(self, request: ReturnRequest) -> None:
        """Note that a new return waits, so that its changes wait behind it."""
        if request.is_new:
            self.awaited.setdefault(request.id, []).append(request.order_id)

    def is_repeat(self, request: ReturnRequest) -> bool:
        """True if the record of the request has been applied to its return already."""
        known = self.returns.get(request.id)
        return known is not None and known.seen.covers(request.position)

    def is_answered(self, request: ReturnRequest) -> bool:
        """True if the command has an outcome already."""
        return request.command_id is not None and (request.command_id, request.id) in self.answered

    def give_up(self, request: ReturnRequest, reasons: Sequence[RefusalReason], at: datetime) -> None:
        """Refuse a request that can't wait for its order, or has waited too long."""
        known = self.returns.get(request.id)
        seen = _seen_after(known, request)
        holder = None if isinstance(known, RefusedReturn) else known
        self._refuse(request, holder, seen, reasons, at)

    def apply(self, request: ReturnRequest) -> None:
        """Decide on a request that isn't a repeat and needn't wait, and apply the decision."""
        known, order = self.returns.get(request.id), self.orders.get(request.order_id)
        seen = _seen_after(known, request)
        if self.is_answered(request):
            if known is not None:
                self._put(replace(known, seen=seen))
            return
        before = known if isinstance(known, Return) else None
        holder = None if isinstance(known, RefusedReturn) else known
        decision = decide(request, holder, order, self.numbers.get(key_of(request)), self.statuses)
        match decision:
            case None:
                raise RuntimeError(f"the return {request.id} has neither been parked nor numbered")
            case list():
                self._refuse(request, holder, seen, decision, request.at)
            case Return() if decision is known:
                # Store its position, so that a redelivery changes nothing after another command has changed the return.
                self._put(replace(decision, seen=seen))
                self._answer(request, Outcome.UNCHANGED)
            case Return():
                kind = "ReturnChanged" if before else "ReturnCreated"
                event = self.services.event(decision.order_id, kind, return_event(decision))
                self._apply(request, before, replace(decision, seen=seen), event)
            case DeletedReturn() if before:
                data = return_deleted(before, before.time_of_change(request.at))
                event = self.services.event(before.order_id, "ReturnDeleted", data)
                self._apply(request, before, replace(decision, seen=seen), event)
                self.work.audit([_audit_entry(request, before)])

    def _refuse(
        self,
        request: ReturnRequest,
        holder: Return | DeletedReturn | None,
        seen: Seen,
        reasons: Sequence[RefusalReason],
        at: datetime,
    ) -> None:
        self._put(replace(holder, seen=seen) if holder else RefusedReturn(request.id, seen))
        outcome = Outcome.NOT_FOUND if request.is_deletion else Outcome.REFUSED
        self._answer(request, outcome, reasons)
        data = return_refused(request, reasons, at)
        self.work.emit([self.services.event(request.order_id or request.id, "ReturnRefused", data)])

    def _apply(
        self, request: ReturnRequest, before: Return | None, after: Return | DeletedReturn, event: OutgoingMessage
    ) -> None:
        self._put(after)
        self._answer(request, Outcome.APPLIED)
        self.work.emit([event])
        # Write the order even if quantities stay the same: its document serializes its returns.
        order = with_return(self.orders[request.order_id], before, after if isinstance(after, Return) else None)
        self.orders[order.id] = self.changed_orders[order.id] = order

    def _put(self, stored: StoredReturn) -> None:
        self.returns[stored.id] = self.changed_returns[stored.id] = stored

    def _answer(self, request: ReturnRequest, outcome: Outcome, reasons: Sequence[RefusalReason] = ()) -> None:
        code = reasons[0].code.value if reasons else None
        message = _in_words(reasons) or None
        self.work.answer(request.command_id, request.id, outcome, code, mark=request.mark, message=message)
        if request.command_id:
            self.answered.add((request.command_id, request.id))


def key_of(request: ReturnRequest) -> RequestKey:
    """The key of a request among the numbers."""
    return request.id, request.position


def _seen_after(known: StoredReturn | None, request: ReturnRequest) -> Seen:
    """The marks of a return after this request."""
    return (known.seen if known else Seen()).after(request.position, is_late=request.has_waited)


def _in_words(reasons: Sequence[RefusalReason]) -> str:
    more = len(reasons) - _MOST_REASONS
    text = "; ".join(reason.message for reason in reasons[:_MOST_REASONS])
    return f"{text}; and {more} more" if more > 0 else text


def _audit_entry(request: ReturnRequest, before: Return) -> AuditEntry:
    return AuditEntry(
        at=request.at,
        subject=request.by,
        action=AuditAction.DELETE,
        store_id=before.store_id,
        command_id=request.command_id,
        return_id=before.id,
    )
