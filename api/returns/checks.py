"""Checks of a return before it is published. The consumer decides again, by the state stored then."""

from datetime import UTC, datetime
from typing import Final

from api.commands import Command
from api.services import Services
from api.web.problems import ItemError, invalid, invalid_at
from domain.delivery import RecordPosition
from domain.returns import Return, changed_return, created_return
from domain.returns_refusals import RefusalReason, ReturnRefusal
from messaging.returns import CreateReturn, NewReturn, NewReturnLine, SavedReturn, UpdateReturn, return_request

_UNPUBLISHED: Final = RecordPosition(partition=-1, offset=-1, timestamp=-1)

_FIELDS: Final = {ReturnRefusal.UNKNOWN_LINE: "orderLineItemId", ReturnRefusal.UNKNOWN_RETURN_LINE: "id"}

_POINTERS: Final = {
    ReturnRefusal.UNKNOWN_STATUS: "/status",
    ReturnRefusal.STATUS_CHANGED: "/expectedStatus",
}


async def check_new(services: Services, command: Command, id: str, wanted: CreateReturn) -> None:
    """Raise ProblemError if the order doesn't allow the return. A repeat of a decided command passes."""
    order = await services.orders.get(wanted.return_.order_id)
    if order is None:
        raise invalid_at("/orderId", ReturnRefusal.UNKNOWN_ORDER.value, f"Order {wanted.return_.order_id} is unknown")
    statuses = (await services.lookups.general()).return_statuses
    outcome = created_return(return_request(wanted, id, _UNPUBLISHED, datetime.now(UTC)), order, "", statuses)
    # Looked up after the order, so that a return that this order already counts is found.
    if (
        isinstance(outcome, list)
        and await services.returns.get(id) is None
        and not await _is_decided(services, command, id)
    ):
        raise invalid([_item_error(reason, has_lines=True) for reason in outcome])


def new_return(wanted: SavedReturn) -> NewReturn:
    """The return to create. Raises ProblemError if a field is missing, or is for changes only."""
    if wanted.order_id is None or wanted.line_items is None:
        missing = [("orderId", wanted.order_id), ("lineItems", wanted.line_items)]
        message = "Field required to create a return; to change one, send its `id`"
        raise invalid([{"pointer": f"/{n}", "code": "missing", "message": message} for n, v in missing if v is None])
    if wanted.expected_status is not None:
        raise invalid_at("/expectedStatus", "contradicts", "`expectedStatus` needs the `id` of a stored return")
    if named := [number for number, line in enumerate(wanted.line_items) if line.id is not None]:
        message = "A line `id` needs the `id` of a stored return"
        raise invalid([{"pointer": f"/lineItems/{n}/id", "code": "contradicts", "message": message} for n in named])
    lines = [NewReturnLine(**line.model_dump(exclude={"id"}, exclude_unset=True)) for line in wanted.line_items]
    return NewReturn(order_id=wanted.order_id, status=wanted.status, resolution=wanted.resolution, line_items=lines)


async def check_change(services: Services, command: Command, known: Return, wanted: UpdateReturn) -> None:
    """Raise ProblemError if the change is empty, or isn't allowed."""
    changes = wanted.return_
    if changes.status is None and changes.resolution is None and changes.line_items is None:
        raise invalid_at("", "nothing-to-change", "Send at least one change: status, resolution or lineItems")
    order = await services.orders.get(known.order_id)
    if order is None:
        return
    statuses = (await services.lookups.general()).return_statuses
    outcome = changed_return(known, return_request(wanted, known.id, _UNPUBLISHED, datetime.now(UTC)), order, statuses)
    # Looked up again: the order may already count a change made meanwhile.
    if (
        isinstance(outcome, list)
        and await services.returns.get(known.id) == known
        and not await _is_decided(services, command, known.id)
    ):
        raise invalid([_item_error(reason, has_lines=changes.line_items is not None) for reason in outcome])


async def _is_decided(services: Services, command: Command, id: str) -> bool:
    """True if this repeats a command that has an outcome."""
    return command.repeatable and bool(await services.outcomes.answers([(command.id, id)]))


def _item_error(reason: RefusalReason, *, has_lines: bool) -> ItemError:
    """A reason with its pointer into the body; if that names no lines, it can only be wrong about a status."""
    if reason.line_index is None:
        pointer = f"/{reason.field}" if reason.field else _POINTERS.get(reason.code, "/orderId")
        return {"pointer": pointer, "code": reason.code.value, "message": reason.message}
    pointer = f"/lineItems/{reason.line_index}/{_FIELDS.get(reason.code, 'quantity')}" if has_lines else "/status"
    return {"pointer": pointer, "code": reason.code.value, "message": reason.message}
