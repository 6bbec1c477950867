"""Lines of returns: known lines keep their ids and data, new lines get ids of their own."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import Final, NamedTuple
from uuid import UUID, uuid5

from domain.returns_refusals import RefusalReason, ReturnRefusal

_LINES: Final = UUID("0c5d8a1e-52e6-5d2b-8b57-d1f2a3c4e5f6")


@dataclass(frozen=True, slots=True)
class ReturnLine:
    """A returned quantity of one order line; prices are per piece."""

    id: str
    order_line_id: str
    quantity: int
    price: float | None
    reason: str | None
    created: datetime
    modified: datetime
    created_by: str | None = None
    modified_by: str | None = None


@dataclass(frozen=True, slots=True)
class LineRequest:
    """A requested line of a return. In a change, a missing reason or price leaves it as it was."""

    order_line_id: str
    quantity: int
    reason: str | None = None
    price: float | None = None
    """Price per piece; None in a new line: that of the order line."""
    id: str | None = None
    """In a change, the id of the line, in case several are of one order line."""


class LineWriter(NamedTuple):
    """The return whose lines are written, the time, and the person."""

    return_id: str
    at: datetime
    by: str | None


def unknown_lines(asked: Sequence[LineRequest], known: Sequence[ReturnLine]) -> list[RefusalReason]:
    """A reason for each line requested by an id that the return doesn't have; another change may have removed it."""
    left: set[tuple[str | None, str]] = {(line.id, line.order_line_id) for line in known}
    reasons = []
    for index, line in enumerate(asked):
        if line.id is not None and (line.id, line.order_line_id) not in left:
            message = f"The return has no line {line.id} of order line {line.order_line_id}, or the line is given twice"
            reasons.append(RefusalReason(ReturnRefusal.UNKNOWN_RETURN_LINE, message, index))
        left.discard((line.id, line.order_line_id))
    return reasons


def lines_of(
    asked: Sequence[LineRequest], known: Sequence[ReturnLine], prices: Mapping[str, float | None], writer: LineWriter
) -> tuple[ReturnLine, ...]:
    """The requested lines: for each, the known line with its id, else the next known line of its order line, else a new
    one at the price of the order line."""
    left: dict[tuple[str | None, str], ReturnLine] = {(line.id, line.order_line_id): line for line in known}
    named = [left.pop((line.id, line.order_line_id), None) for line in asked]
    others: dict[str, list[ReturnLine]] = {}
    for line in reversed(left.values()):
        others.setdefault(line.order_line_id, []).append(line)
    taken = {line.id for line in known}
    lines = []
    new_ids = {line.order_line_id: _new_ids(writer.return_id, line.order_line_id, taken) for line in asked}
    for wanted, own in zip(asked, named, strict=True):
        in_turn = others.get(wanted.order_line_id)
        if before := own or (in_turn.pop() if in_turn else None):
            lines.append(_changed_line(writer, wanted, before))
        else:
            lines.append(_new_line(writer, wanted, prices, next(new_ids[wanted.order_line_id])))
    return tuple(lines)


def _new_ids(return_id: str, order_line_id: str, taken: Collection[str]) -> Iterator[str]:
    """Ids for new lines of an order line: the same whenever the command is applied again."""
    ids = (str(uuid5(_LINES, f"{return_id}/{order_line_id}/{number}")) for number in count(1))
    return (id for id in ids if id not in taken)


def _changed_line(writer: LineWriter, asked: LineRequest, before: ReturnLine) -> ReturnLine:
    """The line as requested; `before` itself if nothing changes."""
    after = replace(
        before,
        quantity=asked.quantity,
        price=asked.price if asked.price is not None else before.price,
        reason=asked.reason if asked.reason is not None else before.reason,
    )
    return before if after == before else replace(after, modified=writer.at, modified_by=writer.by)


def _new_line(writer: LineWriter, asked: LineRequest, prices: Mapping[str, float | None], id: str) -> ReturnLine:
    return ReturnLine(
        id=id,
        order_line_id=asked.order_line_id,
        quantity=asked.quantity,
        price=asked.price if asked.price is not None else prices.get(asked.order_line_id),
        reason=asked.reason,
        created=writer.at,
        modified=writer.at,
        created_by=writer.by,
        modified_by=writer.by,
    )
