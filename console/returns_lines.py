"""The lines of a return as form fields: rendered from stored lines, and parsed from submitted forms."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final

from console.api_client import Refused
from console.fields import Form, in_one_line, number

MOST_LINES: Final = 300
"""Maximum number of lines in a form: an order can have 10,000, and the fields of a form are limited."""

_LINE: Final = re.compile(r"/lineItems/(\d+)\b")


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
        {"orderLineItemId": id, "quantity": number(quantity), "reason": reason or None}
        for id, _, quantity, reason in _rows(form)
        if quantity not in ("", "0")
    ]


def changed_lines(form: Form, stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lines of a return after a form's changes, then those that the form doesn't have, unchanged: the API removes
    lines that a request leaves out, and keeps a reason that is None. It takes a line without an id for the next unnamed
    one of its order line, and else adds it: a form that is sent twice adds it once."""
    rows = _rows(form)
    left = {line["id"]: line for line in stored["lineItems"]}
    named = {own for _, own, _, _ in rows}
    next_of = {line["orderLineItemId"]: id for id, line in reversed(left.items()) if id not in named}
    asked = []
    for id, own, quantity, reason in rows:
        # The API reports a line that has been removed since.
        before = left.pop(own, {"id": own or None, "reason": None})
        if quantity not in ("", "0"):
            if not own:
                left.pop(next_of.pop(id, ""), None)
            now = before["reason"] if reason == in_one_line(before["reason"]).strip() else reason
            asked.append({"id": before["id"], "orderLineItemId": id, "quantity": number(quantity), "reason": now})
    fields = ("id", "orderLineItemId", "quantity", "reason")
    return [*asked, *({name: line[name] for name in fields} for line in left.values())]


def typed(lines: Sequence[LineField], form: Form, refused: Refused, *, is_late: bool = False) -> list[LineField]:
    """The fields with their submitted values and the API's errors; `is_late`: with the stored values, too. Values for a
    new line go into the line that somebody else has added since; a reason without a quantity is put beside their
    quantity."""
    messages: dict[int, str] = {}
    for each in refused.errors:
        if line := _LINE.match(each["pointer"]):
            messages.setdefault(int(line[1]), each["message"])
    sent, known = count(), {line.own for line in lines}
    rows: dict[tuple[str, str], tuple[str, str, str]] = {}
    for id, own, quantity, reason in _rows(form):
        error = "" if quantity in ("", "0") else messages.get(next(sent), "")
        # A line that has been removed since counts as a new one.
        rows[id, own if own in known else ""] = (quantity, reason, error)
    added = {id: row for (id, own), row in rows.items() if not own and (row[0] not in ("", "0") or row[1])}
    found = (
        (line, rows.get((line.id, line.own)) or _row_for_added_line(line, added.pop(line.id, None))) for line in lines
    )
    return [_with_input(line, *row, is_late=is_late) if row else line for line, row in found]


def _row_for_added_line(line: LineField, row: tuple[str, str, str] | None) -> tuple[str, str, str] | None:
    """The row submitted for a new line, as it is shown in the line that somebody else has added."""
    return (line.quantity, *row[1:]) if row and row[0] in ("", "0") else row


def _with_input(line: LineField, quantity: str, reason: str, error: str, *, is_late: bool) -> LineField:
    is_other = (quantity, reason) != (line.quantity, in_one_line(line.reason).strip())
    now = _stored_values(line) if is_late and is_other else ""
    return replace(line, quantity=quantity, reason=reason, error=error, now=now)


def _stored_values(line: LineField) -> str:
    return f"Now {line.quantity}{f': {line.reason}' if line.reason else ''}"


def _rows(form: Form) -> list[tuple[str, str, str, str]]:
    if len(form.getlist("own")) != len(form.getlist("line")):
        raise Refused(422, {"detail": "This form is from another version of the console. Reload the page."})
    ids = (form.getlist(name) for name in ("line", "own"))
    typed = ([each.strip() for each in form.getlist(name)] for name in ("quantity", "reason"))
    return list(zip(*ids, *typed, strict=False))
