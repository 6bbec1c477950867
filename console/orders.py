"""Orders as received, with a search by id, number or customer."""

import json
from typing import Any, Final

from starlette.responses import Response

from console.screens import ROWS, Screens
from console.visits import Visit
from domain.permissions import Permission

_MOST_LINES: Final = 300
_MAX_EVENT_CHARACTERS: Final = 20_000
"""Maximum characters of an order's last event on its page."""

screens = Screens()


@screens.get("/orders", Permission.READ_RETURNS)
async def orders(visit: Visit) -> Response:
    """Orders, newest first."""
    query = visit.query
    body = {
        "keyword": query.get("q", "").strip(),
        "customerId": query.get("customer"),
        "storeId": query.get("store"),
        "take": ROWS,
        "after": query.get("after"),
    }
    found = await visit.facade.ask("POST", "/api/orders/search", body)
    return visit.page("orders.html", rows=found["results"], next=found.get("next"))


@screens.get("/orders/{id:path}", Permission.READ_RETURNS)
async def order(visit: Visit) -> Response:
    """One order: its lines with returnable quantities, its returns, and its last event."""
    row = await visit.facade.ask("GET", f"/api/orders/{visit.segment('id')}")
    returned = await returns_of(visit, row["id"])
    event = json.dumps(row["order"], indent=2, ensure_ascii=False)
    return visit.page(
        "order.html",
        row=row,
        lines=row["lineItems"][:_MOST_LINES],
        returned=returned,
        is_returnable=any(line["availableQuantity"] for line in row["lineItems"]),
        told=event[:_MAX_EVENT_CHARACTERS],
        is_cut=len(event) > _MAX_EVENT_CHARACTERS,
    )


async def returns_of(visit: Visit, id: str) -> dict[str, Any]:
    """The newest returns of an order, with `next` if there are more. Raises Refused."""
    search = {"orderId": id, "sort": "createdDate:desc", "responseGroup": "None", "withTotal": False}
    found: dict[str, Any] = await visit.facade.ask("POST", "/api/return/search", search)
    return found
