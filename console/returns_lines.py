"""The lines of a return as fields of a form: what stands in them, and what is read from them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final

from starlette.datastructures import FormData

from console.facade import Refused
from console.fields import in_one_line, number

MOST_LINES: Final = 300
"""Lines in a form: an order can have 10,000, and a form has a bound."""

_LINE: Final = re.compile(r"/lineItems/(\d+)\b")


@dataclass(frozen=True, slots=True)
class LineField:
    """A line of an order in a form: the most that may be returned of it, what stands in its fields, and what is wrong
    with that. `own`: the id of the return's line about it, empty for a new one. `now`: what is stored by now, in words,
    where the form was made of something else."""

    id: str
    name: str
    price: float | None
    most: int
    quantity: str = "0"
    reason: str = ""
    error: str = ""
    now: str = ""
    own: str = ""


def lines_of_order(order: Mapping[str, Any]) -> list[LineField]:
    """Fields for each line of an order, nothing returned yet; lines with one id are one."""
    lines: dict[str, LineField] = {}
    for line in order["lineItems"]:
        name = line["name"] or line["productId"] or line["id"]
        lines.setdefault(line["id"], LineField(line["id"], name, line["price"], line["availableQuantity"]))
    return list(lines.values())


def lines_of_return(stored: Mapping[str, Any], order: Mapping[str, Any] | None) -> list[LineField]:
    """Fields for each line of a return as it is, and for the other lines of its order, if that is known."""
    others = {line.id: line for line in lines_of_order(order)} if order else {}
    own = []
    for line in stored["lineItems"]:
        id = line["orderLineItemId"]
        name = others[id].name if id in others else id
        quantity, reason = str(line["quantity"]), line["reason"] or ""
        # What a canceled return has may stay, though it takes nothing.
        most = max(line["availableQuantity"], line["quantity"])
        own.append(LineField(id, name, line["price"], most, quantity, reason, own=line["id"]))
    taken = {line.id for line in own}
    return [*own, *(line for id, line in others.items() if id not in taken)]


def line_items(form: FormData) -> list[dict[str, Any]]:
    """The lines that a form asks for: those with a quantity. The interface refuses what isn't a number."""
    return [
        {"orderLineItemId": id, "quantity": number(quantity), "reason": reason or None}
        for id, _, quantity, reason in _rows(form)
        if quantity not in ("", "0")
    ]


def changed_lines(form: FormData, stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lines of a return as a form changes them, then those that the form doesn't have, as they are: lines that
    aren't asked for are dropped, and a reason that is None stays as it was. To the interface one without an id is the
    next of its order line that isn't named, else a new one: it is added once by a form that is sent twice."""
    rows = _rows(form)
    left = {line["id"]: line for line in stored["lineItems"]}
    named = {own for _, own, _, _ in rows}
    next_of = {line["orderLineItemId"]: id for id, line in reversed(left.items()) if id not in named}
    asked = []
    for id, own, quantity, reason in rows:
        # One that has gone meanwhile is told by the interface.
        before = left.pop(own, {"id": own or None, "reason": None})
        if quantity not in ("", "0"):
            if not own:
                left.pop(next_of.pop(id, ""), None)
            now = before["reason"] if reason == in_one_line(before["reason"]).strip() else reason
            asked.append({"id": before["id"], "orderLineItemId": id, "quantity": number(quantity), "reason": now})
    fields = ("id", "orderLineItemId", "quantity", "reason")
    return [*asked, *({name: line[name] for name in fields} for line in left.values())]


def typed(lines: Sequence[LineField], form: FormData, refused: Refused, *, is_late: bool = False) -> list[LineField]:
    """The fields with what was typed into them, and what the interface has against it; `is_late`: with what is stored
    by now, too. What was typed for a new line goes into one that somebody else has added meanwhile, a reason alone
    beside their quantity."""
    messages: dict[int, str] = {}
    for told in refused.errors:
        if line := _LINE.match(told["pointer"]):
            messages.setdefault(int(line[1]), told["message"])
    sent, known = count(), {line.own for line in lines}
    rows: dict[tuple[str, str], tuple[str, str, str]] = {}
    for id, own, quantity, reason in _rows(form):
        error = "" if quantity in ("", "0") else messages.get(next(sent), "")
        # One that has gone meanwhile would be a new one.
        rows[id, own if own in known else ""] = (quantity, reason, error)
    added = {id: row for (id, own), row in rows.items() if not own and (row[0] not in ("", "0") or row[1])}
    found = ((line, rows.get((line.id, line.own)) or _added(line, added.pop(line.id, None))) for line in lines)
    return [_retyped(line, *row, is_late=is_late) if row else line for line, row in found]


def _added(line: LineField, row: tuple[str, str, str] | None) -> tuple[str, str, str] | None:
    """The row that was typed for a new line, as it stands in that of somebody else."""
    return (line.quantity, *row[1:]) if row and row[0] in ("", "0") else row


def _retyped(line: LineField, quantity: str, reason: str, error: str, *, is_late: bool) -> LineField:
    is_other = (quantity, reason) != (line.quantity, in_one_line(line.reason).strip())
    now = _now(line) if is_late and is_other else ""
    return replace(line, quantity=quantity, reason=reason, error=error, now=now)


def _now(line: LineField) -> str:
    return f"Now {line.quantity}{f': {line.reason}' if line.reason else ''}"


def _rows(form: FormData) -> list[tuple[str, str, str, str]]:
    if len(form.getlist("own")) != len(form.getlist("line")):
        raise Refused(422, {"detail": "This form is of another version of the console. Load the page anew."})
    ids = ([str(each) for each in form.getlist(name)] for name in ("line", "own"))
    typed = ([str(each).strip() for each in form.getlist(name)] for name in ("quantity", "reason"))
    return list(zip(*ids, *typed, strict=False))
