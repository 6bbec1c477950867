"""Messages about returns."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Literal

import orjson
from pydantic import ConfigDict, Field, TypeAdapter

from domain.delivery import RecordPosition
from domain.returns import ReturnRequest
from domain.returns_lines import LineRequest
from messaging.chosen_ids import ChosenId
from messaging.schemas import (
    EMPTY_IS_MISSING,
    HIDDEN_INPUT,
    MAX_ITEMS,
    ClosedMessage,
    Id,
    Message,
    Name,
    Note,
    OptionalId,
    ReturnStatusName,
    StoredId,
    Stores,
    without_defaults,
)


class NewReturnLine(Message):
    """The quantity and reason of one returned order line."""

    order_line_item_id: Id
    quantity: Annotated[int, Field(ge=1, le=2**31 - 1)]
    reason: Note | None = None
    price: (
        Annotated[
            float,
            Field(
                allow_inf_nan=False,
                description="Price per piece; missing: that of the order line. A negative price is a discount",
            ),
        ]
        | None
    ) = None

    def request(self) -> LineRequest:
        """The line as a domain value."""
        return LineRequest(self.order_line_item_id, self.quantity, self.reason, self.price)


class ReturnLineFields(NewReturnLine):
    """A line of a new return, or of a stored one."""

    id: Annotated[
        OptionalId,
        Field(description="In a change: id of the line of the return; missing: the next line of its order line"),
    ] = None

    def request(self) -> LineRequest:
        """The line as a domain value."""
        return replace(super().request(), id=self.id)


Status = Annotated[
    ReturnStatusName | None,
    EMPTY_IS_MISSING,
    Field(description="One of `returnStatuses` in the settings, in any letter case"),
]
ExpectedStatus = Annotated[
    ReturnStatusName | None,
    Field(description="A return in another status isn't changed: refused, `status-changed`"),
]
ReturnLines = Annotated[list[ReturnLineFields], Field(min_length=1, max_length=MAX_ITEMS)]


class NewReturn(Message):
    """A new return for an order."""

    id: ChosenId = None
    order_id: Id
    status: Status = None
    resolution: Note | None = None
    line_items: Annotated[list[NewReturnLine], Field(min_length=1, max_length=MAX_ITEMS)]


class SavedReturn(Message):
    """A new return or, with an id, a change of one."""

    model_config = ConfigDict(json_schema_extra=without_defaults)

    id: Annotated[
        OptionalId, Field(description="Missing: creates a return, which requires `orderId` and `lineItems`")
    ] = None
    order_id: OptionalId = None
    expected_status: ExpectedStatus = None
    status: Status = None
    resolution: Note | None = None
    line_items: ReturnLines | None = None


class ReturnChanges(SavedReturn):
    """A change of a return. Omitted fields keep their values; `lineItems` replaces all lines."""

    id: Id


class ReturnId(Message):
    """A return by its id."""

    id: StoredId


class CreateReturn(ClosedMessage):
    """Store a return."""

    action: Literal["create"]
    return_: Annotated[NewReturn, Field(alias="return")]
    user: Annotated[Name | None, Field(description="The caller; stored as `createdBy`")] = None
    command_id: OptionalId = None
    stores: Stores = None


class UpdateReturn(ClosedMessage):
    """Change the status, resolution or quantities of a return."""

    action: Literal["update"]
    return_: Annotated[ReturnChanges, Field(alias="return")]
    user: Annotated[Name | None, Field(description="The caller; stored as `modifiedBy`")] = None
    command_id: OptionalId = None
    stores: Stores = None


class DeleteReturn(ClosedMessage):
    """Delete a return; its quantities can be returned again."""

    action: Literal["delete"]
    return_: Annotated[ReturnId, Field(alias="return")]
    user: Annotated[Name | None, Field(description="The caller, for the audit log")] = None
    command_id: OptionalId = None
    stores: Stores = None


ReturnCommand = CreateReturn | UpdateReturn | DeleteReturn
RETURN_COMMAND: TypeAdapter[ReturnCommand] = TypeAdapter(
    Annotated[ReturnCommand, Field(discriminator="action")], config=HIDDEN_INPUT
)


def parked_return_command(value: bytes) -> ReturnCommand:
    """The command in a value that was parked. Raises ValueError if it is none."""
    # Any context stands for a stored value, which an earlier version may have accepted.
    return RETURN_COMMAND.validate_python(orjson.loads(value), strict=False, context="parked")


def return_request(command: ReturnCommand, id: str, position: RecordPosition, at: datetime) -> ReturnRequest:
    """The command as a domain value."""
    request = ReturnRequest(
        id=id,
        order_id="",
        is_new=isinstance(command, CreateReturn),
        position=position,
        at=at,
        by=command.user,
        command_id=command.command_id,
        stores=command.stores,
        is_deletion=isinstance(command, DeleteReturn),
    )
    if isinstance(command, DeleteReturn):
        return request
    wanted = command.return_
    return replace(
        request,
        order_id=wanted.order_id or "",
        named_order_id=wanted.order_id if isinstance(wanted, ReturnChanges) else None,
        expected_status=wanted.expected_status if isinstance(wanted, ReturnChanges) else None,
        status=wanted.status,
        resolution=wanted.resolution,
        lines=tuple(line.request() for line in wanted.line_items) if wanted.line_items is not None else None,
    )
