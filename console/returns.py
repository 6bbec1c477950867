"""Returns: lists by status, a page to change one, and a form to create one from an order."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from secrets import token_urlsafe
from typing import Any, Final

from starlette.responses import Response

from api.returns.routes import MOST_COUNTED
from console.api_client import Refused, if_in_time, segment
from console.content_hashes import check_seen, hash_of_return
from console.fields import Form, in_one_line, loaded_in, shown_again
from console.orders import returns_of
from console.parameters import choice
from console.returns_lines import (
    MOST_LINES,
    LineField,
    changed_lines,
    line_items,
    lines_of_order,
    lines_of_return,
    typed,
)
from console.screens import ROWS, Screens
from console.visits import Visit, key_of
from domain.permissions import Permission

PATH: Final = "/console/returns"
ALL: Final = "all"
_STATUSES_WITH_OWN_PAGE: Final = (401, 403, 404)

screens = Screens()


@screens.get("/returns", Permission.READ_RETURNS)
async def returns(visit: Visit) -> Response:
    """Returns in one status or in all, oldest first. Without a status: the first one, or all for a keyword."""
    query = visit.query
    sort = choice(query, "sort", ("oldest", "newest"), "oldest", noun="sort order")
    filters = {
        "orderId": query.get("order"),
        "customerId": query.get("customer"),
        "storeId": query.get("store"),
        "keyword": query.get("q"),
    }
    counts = await visit.facade.ask("POST", "/api/return/counts", filters)
    status = query.get("status") or (ALL if "q" in query else next(iter(counts)))
    body = {
        **filters,
        "status": None if status == ALL else status,
        "sort": f"createdDate:{'desc' if sort == 'newest' else 'asc'}",
        "responseGroup": "None",
        "take": ROWS,
        "withTotal": False,
        "after": query.get("after"),
    }
    found = await visit.facade.ask("POST", "/api/return/search", body)
    rows = found["results"]
    return visit.page(
        "returns.html",
        rows=[{**row, **_sums(row["lineItems"])} for row in rows],
        orders=await _orders(visit, rows),
        counts=counts,
        most_counted=MOST_COUNTED,
        tab=status,
        next=found.get("next"),
        is_filtered=bool(query.keys() & {"q", "store", "customer", "order", "after"}),
    )


@screens.get("/returns/waiting", Permission.READ_RETURNS)
async def waiting(visit: Visit) -> Response:
    """The number of returns in the first status, in all stores of the visitor, for the navigation."""
    counts = await if_in_time(visit.facade.ask("POST", "/api/return/counts", {}), {"": 0})
    return visit.page("waiting.html", count=next(iter(counts.values())), most=MOST_COUNTED)


@screens.get("/returns/new", Permission.READ_RETURNS, Permission.CREATE_RETURNS)
async def new_return(visit: Visit) -> Response:
    """The form to create a return of an order; without an order, a search for one."""
    return await _new_page(visit, visit.query.get("orderId"))


@screens.post("/returns/new", Permission.READ_RETURNS, Permission.CREATE_RETURNS)
async def create(visit: Visit) -> Response:
    """Create a return. A refused form keeps its input, with the API's errors beside it."""
    form = await visit.form()
    wanted = {
        "orderId": form.get("orderId"),
        "resolution": form.get("resolution") or None,
        "lineItems": line_items(form),
    }
    try:
        answer = await visit.facade.command("POST", "/api/return", wanted, key=key_of(form))
    except Refused as refused:
        if refused.status in _STATUSES_WITH_OWN_PAGE:
            raise
        return await _new_page(visit, str(wanted["orderId"]), form, refused)
    if answer["outcome"] == "accepted":
        return visit.back(f"{PATH}?status={ALL}", "accepted")
    return visit.back(f"{PATH}/{segment(answer['id'])}", "created")


@screens.get("/returns/{id}", Permission.READ_RETURNS)
async def one_return(visit: Visit) -> Response:
    """One return with the forms that change it."""
    return await _page(visit)


@screens.post("/returns/{id}/status", Permission.READ_RETURNS, Permission.UPDATE_RETURNS)
async def set_status(visit: Visit) -> Response:
    """Change the status and the resolution. An unchanged resolution isn't sent: it keeps what a change by somebody else
    gives it that hasn't taken effect yet."""
    form = await visit.form()

    def changes(row: Mapping[str, Any]) -> dict[str, Any]:
        wanted = {name: form.get(name) for name in ("expectedStatus", "status", "resolution")}
        # By what the form showed: sent twice, it sends the same.
        if wanted["resolution"] == loaded_in(form).get("resolution", in_one_line(row["resolution"])):
            del wanted["resolution"]
        return wanted

    return await _change(visit, form, changes)


@screens.post("/returns/{id}/lines", Permission.READ_RETURNS, Permission.UPDATE_RETURNS)
async def set_lines(visit: Visit) -> Response:
    """Change the quantities and the reasons; lines that don't fit on the page stay as they are."""
    form = await visit.form()

    def changes(row: Mapping[str, Any]) -> dict[str, Any]:
        return {"expectedStatus": form.get("expectedStatus"), "lineItems": changed_lines(form, row)}

    return await _change(visit, form, changes)


@screens.post("/returns/{id}/delete", Permission.DELETE_RETURNS)
async def delete(visit: Visit) -> Response:
    """Delete a return for good if it is still as the page showed it."""
    form = await visit.form()
    try:
        await _check_deletion(visit, form)
        answer = await visit.facade.command("DELETE", "/api/return", None, {"ids": visit.path["id"]}, key=key_of(form))
    except Refused as refused:
        if refused.status != 409 or not visit.may(Permission.READ_RETURNS):
            raise
        return await _page(visit, refused=refused)
    return visit.after(answer, PATH, "deleted")


async def _check_deletion(visit: Visit, form: Form) -> None:
    """Raises Refused if the return isn't as the form showed it. Not for visitors who may not read returns, nor if it is
    gone: this form has deleted it before."""
    if "seen" not in form or not visit.may(Permission.READ_RETURNS):
        return
    row = await visit.facade.find(f"/api/return/{visit.segment('id')}")
    if row is None:
        return
    is_decided = form.get("expectedStatus") != row["status"]
    check_seen(form, "" if is_decided else hash_of_return(row), "this return")


async def _change(visit: Visit, form: Form, changes_of: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Response:
    """Apply a form's changes, which `changes_of` computes from the stored return."""
    id = visit.path["id"]
    try:
        row = await visit.facade.ask("GET", f"/api/return/{segment(id)}")
        changes = changes_of(row)
        check_seen(form, hash_of_return(row), "this return", is_done=_is_done(row, changes))
        answer = await visit.facade.command("PUT", "/api/return", {"id": id, **changes}, key=key_of(form))
    except Refused as refused:
        if refused.status in _STATUSES_WITH_OWN_PAGE:
            raise
        return await _page(visit, form, refused)
    return visit.after(answer, f"{PATH}/{segment(id)}", "saved")


def _is_done(row: Mapping[str, Any], changes: Mapping[str, Any]) -> bool:
    """True if the return has the changed values already."""
    if "lineItems" not in changes:
        wanted = (changes["status"], changes.get("resolution", row["resolution"]) or None)
        return wanted == (row["status"], row["resolution"] or None)
    return _line_values(row["lineItems"]) == _line_values(changes["lineItems"])


def _line_values(lines: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return [(line["orderLineItemId"], line["quantity"], line["reason"]) for line in lines]


async def _page(visit: Visit, form: Form | None = None, refused: Refused | None = None) -> Response:
    """A return with the forms that change it; a refused one keeps its input. Raises Refused."""
    row = await visit.facade.ask("GET", f"/api/return/{visit.segment('id')}")
    order = await visit.facade.find(f"/api/orders/{segment(row['orderId'])}")
    lines = lines_of_return(row, order)
    if form and refused:
        lines = typed(lines, form, refused, is_late=refused.status == 409)
    stored = {"status": row["status"], "resolution": in_one_line(row["resolution"])}
    counts, others = await asyncio.gather(
        visit.facade.ask("POST", "/api/return/counts", {"ids": [row["id"]]}),
        returns_of(visit, row["orderId"]),
    )
    return visit.page(
        "return.html",
        row={**row, **_sums(row["lineItems"])},
        order=order,
        fields=shown_again(form, stored),
        loaded=json.dumps(stored),
        statuses=list(dict.fromkeys([*counts, row["status"]])),
        others=[each for each in others["results"] if each["id"] != row["id"]],
        has_more="next" in others,
        currency=row["currency"],
        **_form_values(lines, form, refused),
    )


async def _new_page(
    visit: Visit, order_id: str | None, form: Form | None = None, refused: Refused | None = None
) -> Response:
    """The form to create a return of an order; a refused one keeps its input. Raises Refused."""
    order = await visit.facade.ask("GET", f"/api/orders/{segment(order_id)}") if order_id else None
    lines = lines_of_order(order) if order else []
    if form and refused:
        lines = typed(lines, form, refused)
    currency = order["currency"] if order else None
    return visit.page("return_new.html", order=order, currency=currency, **_form_values(lines, form, refused))


def _form_values(lines: Sequence[LineField], form: Form | None, refused: Refused | None) -> dict[str, Any]:
    """The template values of a form with lines. After a server error it keeps its key, as the same is to be sent
    again."""
    key = key_of(form) if form and refused and refused.status >= 500 else None
    return {
        "lines": lines[:MOST_LINES],
        "more_lines": max(0, len(lines) - MOST_LINES),
        "typed": form or {},
        "refused": refused,
        "form_key": (lambda: key) if key else token_urlsafe,
    }


async def _orders(visit: Visit, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The orders of these returns by id, without unknown ones."""
    ids = list(dict.fromkeys(row["orderId"] for row in rows))
    if not ids:
        return {}
    found = await visit.facade.ask("POST", "/api/orders/search", {"ids": ids, "take": ROWS})
    return {order["id"]: order for order in found["results"]}


def _sums(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The number of items of a return, and their total price: None if a price is unknown."""
    prices = [line["price"] for line in lines]
    total = None if None in prices else sum(line["price"] * line["quantity"] for line in lines)
    return {"items": sum(line["quantity"] for line in lines), "total": total}
