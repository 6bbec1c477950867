"""Returns of ordered goods, never of more than was ordered."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from domain.commands import CommandMark
from domain.delivery import RecordPosition, Seen, content_digest
from domain.orders import Order
from domain.permissions import is_within
from domain.returns_lines import LineRequest, LineWriter, ReturnLine, lines_of, unknown_lines
from domain.returns_refusals import RefusalReason, ReturnRefusal, unknown_order
from domain.returns_statuses import DEFAULT_STATUSES, ReturnStatus, status_named
from domain.timestamps import a_millisecond_after


@dataclass(frozen=True, slots=True)
class Return:
    """A return request as it is stored."""

    id: str
    number: str
    order_id: str
    status: str
    resolution: str | None
    lines: tuple[ReturnLine, ...]
    created: datetime
    modified: datetime
    created_by: str | None = None
    modified_by: str | None = None
    seen: Seen = field(default_factory=Seen)
    store_id: str | None = None
    """The first known store of its order, in which its number is unique."""
    origin: int | None = None
    """The digest of the request that created it; None if unknown."""

    def quantities(self) -> dict[str, int]:
        """The quantity that it takes, by order line id; none if it is canceled."""
        return {} if self.status == ReturnStatus.CANCELED else self.named()

    def named(self) -> dict[str, int]:
        """The quantity that its lines name, by order line id, also if it is canceled."""
        named: dict[str, int] = {}
        for line in self.lines:
            named[line.order_line_id] = named.get(line.order_line_id, 0) + line.quantity
        return named

    def time_of_change(self, at: datetime) -> datetime:
        """The time of a change requested at that moment: always later than the last change, whatever the clocks of the
        senders, so that the latest change counts."""
        return max(at, a_millisecond_after(self.modified))


@dataclass(frozen=True, slots=True)
class DeletedReturn:
    """A deleted return: its id stays taken for a while, so that no redelivery recreates it."""

    id: str
    seen: Seen


@dataclass(frozen=True, slots=True)
class ReturnRequest:
    """A request to create a return (`is_new`), delete one (`is_deletion`) or change one, where None leaves a field."""

    id: str
    order_id: str
    """The order of the stored return, else the one that the request names."""
    is_new: bool
    position: RecordPosition
    at: datetime
    by: str | None = None
    status: str | None = None
    expected_status: str | None = None
    """The status in which the sender saw the return; None: any."""
    resolution: str | None = None
    lines: tuple[LineRequest, ...] | None = None
    command_id: str | None = None
    mark: CommandMark | None = None
    stores: Collection[str] | None = None
    """The stores that the sender is bound to; None: all."""
    is_deletion: bool = False
    named_order_id: str | None = None
    """The order that a change names; None: it names none."""
    has_waited: bool = False
    """True if it waited for its order, while later requests may have been applied."""

    @property
    def writer(self) -> LineWriter:
        """The writer of its lines."""
        return LineWriter(self.id, self.at, self.by)

    @property
    def digest(self) -> int:
        """The digest of the requested content, without the order."""
        lines = [(line.order_line_id, line.quantity, line.reason, line.price) for line in self.lines or ()]
        return content_digest(repr((self.status and self.status.casefold(), self.resolution, lines)))

    def may_touch(self, order: Order) -> bool:
        """True if the sender may see and change returns of this order."""
        return is_within(self.stores, order.store_id)


_ID_TAKEN: Final = RefusalReason(ReturnRefusal.ID_TAKEN, "The id is taken: choose another one, or omit it")
_CREATED_BY_OTHER_REQUEST: Final = RefusalReason(
    ReturnRefusal.ID_TAKEN,
    "A return with this id was already created by another request: change that return, or choose another id",
)


def decide(
    request: ReturnRequest,
    known: Return | DeletedReturn | None,
    order: Order | None,
    number: str | None,
    statuses: Sequence[str] = DEFAULT_STATUSES,
) -> Return | DeletedReturn | list[RefusalReason] | None:
    """The return after a request (`known` itself if it stays as it is), or every reason against the request.

    None if it can't be created yet, without an order or a number.
    """
    if isinstance(known, DeletedReturn):
        return [_ID_TAKEN] if request.is_new else _unknown_return(request.id)
    if known is not None:
        if request.is_new:
            return _decide_repeat(request, known)
        if order is not None and request.is_deletion and request.may_touch(order):
            return DeletedReturn(known.id, known.seen.after(request.position))
        if order is not None and not request.is_deletion:
            return changed_return(known, request, order, statuses)
    elif request.is_new:
        return created_return(request, order, number, statuses) if order and number else None
    return _unknown_return(request.id)


def _decide_repeat(request: ReturnRequest, known: Return) -> Return | list[RefusalReason]:
    if request.order_id != known.order_id or not is_within(request.stores, known.store_id):
        return [_ID_TAKEN]
    # A repeat of the request that created it, also if the return has changed since.
    return known if known.origin in (None, request.digest) else [_CREATED_BY_OTHER_REQUEST]


def created_return(
    request: ReturnRequest, order: Order, number: str, statuses: Sequence[str] = DEFAULT_STATUSES
) -> Return | list[RefusalReason]:
    """The return that a request creates for an order, or every reason against it."""
    if not request.may_touch(order):
        return unknown_order(order.id)
    status = status_named(request.status or ReturnStatus.NEW, statuses)
    wanted = Return(
        id=request.id,
        number=number,
        order_id=order.id,
        status=status or ReturnStatus.NEW,
        resolution=request.resolution,
        lines=lines_of(request.lines or (), (), order.prices(), request.writer),
        created=request.at,
        modified=request.at,
        created_by=request.by,
        modified_by=request.by,
        store_id=order.store_id,
        seen=Seen().after(request.position),
        origin=request.digest,
    )
    return _unknown_status(request, status, statuses) + _objections(wanted, None, order) or wanted


def changed_return(
    known: Return, request: ReturnRequest, order: Order, statuses: Sequence[str] = DEFAULT_STATUSES
) -> Return | list[RefusalReason]:
    """The return after a change (`known` itself if nothing changes), or every reason against it.

    If the change names any lines, all others are dropped. Quantities are checked again if the return takes more than
    before, also by no longer being canceled. A status that the return already has may stay, even if the settings no
    longer list it.
    """
    if not request.may_touch(order):
        return _unknown_return(known.id)
    if request.named_order_id not in (None, known.order_id):
        return [
            RefusalReason(
                ReturnRefusal.ID_TAKEN, f"The return belongs to order {known.order_id}, which can't be changed"
            )
        ]
    if request.expected_status is not None and status_named(request.expected_status, [known.status]) is None:
        is_status = status_named(request.expected_status, statuses) is not None
        changed = RefusalReason(ReturnRefusal.STATUS_CHANGED, f"The return now has the status {known.status}")
        return [changed if is_status else _unknown_status_reason(request.expected_status, statuses, "expectedStatus")]
    request = replace(request, at=known.time_of_change(request.at))
    status = status_named(request.status or known.status, (*statuses, known.status))
    lines = known.lines
    if request.lines is not None:
        lines = lines_of(request.lines, known.lines, order.prices(), request.writer)
    wanted = replace(
        known,
        status=status or known.status,
        resolution=request.resolution if request.resolution is not None else known.resolution,
        lines=lines,
        modified=request.at,
        modified_by=request.by,
        seen=known.seen.after(request.position),
    )
    unknown = _unknown_status(request, status, statuses) + unknown_lines(request.lines or (), known.lines)
    if reasons := unknown + _objections(wanted, known, order):
        return reasons
    return known if _changeable_part(wanted) == _changeable_part(known) else wanted


def with_return(order: Order, before: Return | None, after: Return | None) -> Order:
    """The order after a return changed from `before` to `after`; None: no return."""
    returned = dict(order.returned)
    for sign, version in ((-1, before), (1, after)):
        for line_id, quantity in (version.quantities() if version else {}).items():
            returned[line_id] = returned.get(line_id, 0) + sign * quantity
    return replace(order, returned={line_id: quantity for line_id, quantity in returned.items() if quantity})


def _changeable_part(version: Return) -> tuple[object, ...]:
    """The part of a return that a request can change."""
    lines = ((line.order_line_id, line.quantity, line.price, line.reason) for line in version.lines)
    return version.status, version.resolution, *lines


def _unknown_return(id: str) -> list[RefusalReason]:
    return [RefusalReason(ReturnRefusal.UNKNOWN_RETURN, f"Return {id} is unknown")]


def _unknown_status(request: ReturnRequest, found: str | None, statuses: Sequence[str]) -> list[RefusalReason]:
    return [] if found is not None else [_unknown_status_reason(request.status, statuses)]


def _unknown_status_reason(status: str | None, statuses: Sequence[str], field: str | None = None) -> RefusalReason:
    message = f"{status} is not a status of returns. Use one of: {', '.join(statuses)}"
    return RefusalReason(ReturnRefusal.UNKNOWN_STATUS, message, field=field)


def _objections(wanted: Return, known: Return | None, order: Order) -> list[RefusalReason]:
    """Every reason why the order doesn't allow the wanted return."""
    ordered = order.ordered()
    own, held = (known.quantities(), known.named()) if known else ({}, {})
    taken, named = wanted.quantities(), wanted.named()
    reasons = []
    for index, line in enumerate(wanted.lines):
        line_id = line.order_line_id
        # Even if the order has lost the line since, the return may keep or reduce its quantity.
        if named[line_id] <= held.get(line_id, 0) and taken.get(line_id, 0) <= own.get(line_id, 0):
            continue
        if line_id not in ordered:
            message = f"Order {order.id} has no line {line_id}"
            reasons.append(RefusalReason(ReturnRefusal.UNKNOWN_LINE, message, index))
            continue
        # The quantity that this return already takes is available to it.
        available = max(0, ordered[line_id] - order.returned.get(line_id, 0) + own.get(line_id, 0))
        if taken.get(line_id, 0) > available:
            message = f"{taken[line_id]} of line {line_id} requested, {available} available"
            reasons.append(RefusalReason(ReturnRefusal.TOO_MANY, message, index))
        elif named[line_id] > ordered[line_id]:
            # Only for a canceled return, which takes nothing.
            message = f"{named[line_id]} of line {line_id} requested, {ordered[line_id]} ordered"
            reasons.append(RefusalReason(ReturnRefusal.TOO_MANY, message, index))
    return reasons
