"""The lines of a return as form fields: rendered from stored lines, and parsed from submitted forms."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final, NamedTuple

from console.api_client import Refused
from console.fields import Form, in_one_line, number

MOST_LINES: Final = 300
"""Maximum number of lines in a form: an order can have 10,000, and the fields of a form are limited."""

_LINE: Final = re.compile(r"/lineItems/(\d+)\b")


class _Row(NamedTuple):
    """A submitted line: the id of the order's line, and that of the return's line, empty for a new one."""

    id: str
    own: str
    quantity: str
    reason: str
    error: str = ""

    @property
    def has_items(self) -> bool:
        """False if nothing of it is returned."""
        return self.quantity not in ("", "0")


@dataclass(frozen=True, slots=True)
class LineField:
    """A line of an order in a form."""

    id: str
    name: str
    price: float | None
    most: int
    """Maximum quantity that may be returned."""

    quantity: str = "0"
    reason: str = ""
    error: str = ""
    now: str = ""
    """The stored values in words, if an outdated form has other ones."""

    own: str = ""
    """Id of the return's line for this line of the order; empty for a new one."""


def lines_of_order(order: Mapping[str, Any]) -> list[LineField]:
    """Fields for each line of an order, with nothing returned; lines with the same id become one."""
    lines: dict[str, LineField] = {}
    for line in order["lineItems"]:
        name = line["name"] or line["productId"] or line["id"]
        lines.setdefault(line["id"], LineField(line["id"], name, line["price"], line["availableQuantity"]))
    return list(lines.values())


def lines_of_return(stored: Mapping[str, Any], order: Mapping[str, Any] | None) -> list[LineField]:
    """Fields for each stored line of a return, then for the other lines of its order, if that is known."""
    others = {line.id: line for line in lines_of_order(order)} if order else {}
    own = []
    for line in stored["lineItems"]:
        id = line["orderLineItemId"]
        name = others[id].name if id in others else id
        quantity, reason = str(line["quantity"]), line["reason"] or ""
        # The quantity of a canceled return may stay, though it doesn't count.
        most = max(line["availableQuantity"], line["quantity"])
        own.append(LineField(id, name, line["price"], most, quantity, reason, own=line["id"]))
    taken = {line.id for line in own}
    return [*own, *(line for id, line in others.items() if id not in taken)]


def line_items(form: Form) -> list[dict[str, Any]]:
    """The lines of a form that have a quantity. The API refuses quantities that aren't numbers."""
    return [
        {"orderLineItemId": row.id, "quantity": number(row.quantity), "reason": row.reason or None}
        for row in _rows(form)
        if row.has_items
    ]


def changed_lines(form: Form, stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lines of a return after a form's changes, then those that the form doesn't have, unchanged: the API removes
    lines that a request leaves out, and keeps a reason that is None. It takes a line without an id for the next unnamed
    one of its order line, and else adds it: a form that is sent twice adds it once."""
    rows = _rows(form)
    left = {line["id"]: line for line in stored["lineItems"]}
    named = {row.own for row in rows}
    next_of = {line["orderLineItemId"]: id for id, line in reversed(left.items()) if id not in named}
    asked = []
    for row in rows:
        # The API reports a line that has been removed since.
        before = left.pop(row.own, {"id": row.own or None, "reason": None})
        if not row.has_items:
            continue
        if not row.own:
            left.pop(next_of.pop(row.id, ""), None)
        is_same_reason = row.reason == in_one_line(before["reason"]).strip()
        asked.append(
            {
                "id": before["id"],
                "orderLineItemId": row.id,
                "quantity": number(row.quantity),
                "reason": before["reason"] if is_same_reason else row.reason,
            }
        )
    fields = ("id", "orderLineItemId", "quantity", "reason")
    return [*asked, *({name: line[name] for name in fields} for line in left.values())]


def typed(lines: Sequence[LineField], form: Form, refused: Refused, *, is_late: bool = False) -> list[LineField]:
    """The fields with their submitted values and the API's errors; `is_late`: with the stored values, too. Values for a
    new line go into the line that somebody else has added since."""
    errors: dict[int, str] = {}
    for each in refused.errors:
        if line_at := _LINE.match(each["pointer"]):
            errors.setdefault(int(line_at[1]), each["message"])
    sent, known = count(), {line.own for line in lines}
    rows: dict[tuple[str, str], _Row] = {}
    for row in _rows(form):
        # A line that has been removed since counts as a new one.
        own = row.own if row.own in known else ""
        rows[row.id, own] = row._replace(own=own, error=errors.get(next(sent), "") if row.has_items else "")
    new = {row.id: row for row in rows.values() if not row.own and (row.has_items or row.reason)}
    fields = []
    for line in lines:
        found = rows.get((line.id, line.own))
        if found is None and (found := new.pop(line.id, None)) and not found.has_items:
            # Only a reason was typed: it is shown beside the quantity of somebody else.
            found = found._replace(quantity=line.quantity)
        fields.append(_with_input(line, found, is_late=is_late) if found else line)
    return fields


def _with_input(line: LineField, row: _Row, *, is_late: bool) -> LineField:
    is_other = (row.quantity, row.reason) != (line.quantity, in_one_line(line.reason).strip())
    now = f"Now {line.quantity}{f': {line.reason}' if line.reason else ''}" if is_late and is_other else ""
    return replace(line, quantity=row.quantity, reason=row.reason, error=row.error, now=now)


def _rows(form: Form) -> list[_Row]:
    ids, own, quantities, reasons = (form.getlist(name) for name in ("line", "own", "quantity", "reason"))
    if len(own) != len(ids):
        raise Refused(422, {"detail": "This form is from another version of the console. Reload the page."})
    rows = zip(ids, own, quantities, reasons, strict=False)
    return [_Row(id, own, quantity.strip(), reason.strip()) for id, own, quantity, reason in rows]
