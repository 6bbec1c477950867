"""Lines of a return in an outdated form: the typed values beside the stored ones."""

from typing import Any

from console.api_client import Refused
from console.fields import Form
from console.returns_lines import changed_lines, lines_of_return, typed


def line(id: str, of: str, quantity: int, reason: str | None = None) -> dict[str, Any]:
    fields = {"price": 1.0, "availableQuantity": 5}
    return {"id": id, "orderLineItemId": of, "quantity": quantity, "reason": reason, **fields}


def form(*rows: tuple[str, str, str, str]) -> Form:
    names = ("line", "own", "quantity", "reason")
    return Form([pair for row in rows for pair in zip(names, row, strict=True)])


def test_typed_reason_keeps_the_stored_quantity() -> None:
    """The reason was typed for a line that somebody else has added since: its quantity stays."""
    stored = {"lineItems": [line("a1", "A", 1), line("b1", "B", 2, "broken")]}
    sent = form(("A", "a1", "3", ""), ("B", "", "0", "wrong size"))
    fields = typed(lines_of_return(stored, None), sent, Refused(409, {}), is_late=True)
    values = [(each.own, each.quantity, each.reason, each.now) for each in fields]
    assert values == [("a1", "3", "", "Now 1"), ("b1", "2", "wrong size", "Now 2: broken")]
    again = form(*((each.id, each.own, each.quantity, each.reason) for each in fields))
    quantities = {each["id"]: each["quantity"] for each in changed_lines(again, stored)}
    assert quantities == {"a1": 3, "b1": 2}


def test_line_ids_are_kept_verbatim() -> None:
    stored = {"lineItems": [line(" a1", "000010 ", 1)]}
    (changed,) = changed_lines(form(("000010 ", " a1", " 2 ", " Torn ")), stored)
    assert (changed["id"], changed["orderLineItemId"]) == (" a1", "000010 ")
    assert (changed["quantity"], changed["reason"]) == (2, "Torn")
