"""Reminders: orders that are due, reasons why others aren't, and the next runs."""

from collections import Counter
from typing import Final

from starlette.responses import Response

from console.screens import ROWS, Screens
from console.visits import Visit
from domain.permissions import Permission

REASONS: Final = {
    "not-in-status": "not in the status",
    "not-yet": "not due yet",
    "too-old": "too old for a reminder",
    "request-viewed": "the customer has seen the request",
    "order-cancelled": "the order was cancelled",
    "no-customer": "the order has no customer",
    "no-address": "the order has no e-mail address",
    "nothing-to-review": "no product in the order",
    "everything-reviewed": "everything has been reviewed",
    "products-disabled": "reviews are disabled for its products",
    "reviews-disabled": "reviews are disabled in the store",
    "no-sender": "the store has no e-mail address, and no other sender is configured",
    "customer-limit": "the customer has received the maximum number of mails",
    "mail-failed": "the mail could not be written",
    "over": "decided by an earlier run, until the order changes",
}

_MOST_CHIPS: Final = 12
"""Number of stores up to which each has a chip."""

_NEVER_DUE: Final = ("not-yet", "too-old", "reviews-disabled", "no-sender", "over")

screens = Screens()


@screens.get("/reminders", Permission.READ_SETTINGS)
async def reminders(visit: Visit) -> Response:
    """The decisions that a run would take now."""
    query = visit.query
    wanted = {"storeId": query.get("store"), "orderId": query.get("order"), "take": ROWS}
    found = await visit.facade.ask("GET", "/api/reminders/preview", query=wanted)
    due = [row for row in found["results"] if row["decision"] == "remind"]
    others = [row for row in found["results"] if row["decision"] != "remind"]
    stores = await visit.facade.ask("GET", "/api/stores", query={"take": _MOST_CHIPS + 1})
    return visit.page(
        "reminders.html",
        found=found,
        due=due,
        others=others,
        # The preview is full: more orders may be due than it lists.
        is_cut=sum(row["decision"] not in _NEVER_DUE for row in found["results"]) >= ROWS,
        counts=Counter(row["decision"] for row in others).most_common(),
        reasons=REASONS,
        stores=stores if len(stores) <= _MOST_CHIPS else None,
    )
