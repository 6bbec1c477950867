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
    "too-old": "too old to be asked about",
    "request-viewed": "the customer has seen the request",
    "order-cancelled": "the order was cancelled",
    "no-customer": "no customer is known",
    "no-address": "no e-mail address is known",
    "nothing-to-review": "no product in the order",
    "everything-reviewed": "everything is reviewed already",
    "products-disabled": "its products take no reviews",
    "reviews-disabled": "the store takes no reviews",
    "customer-limit": "the customer has got as many mails as may be",
    "mail-failed": "the mail could not be written",
    "over": "settled by an earlier run, until the order changes",
}

_NEVER_DUE: Final = ("not-yet", "too-old", "reviews-disabled", "over")

screens = Screens()


@screens.get("/reminders", Permission.READ_SETTINGS)
async def reminders(visit: Visit) -> Response:
    """The decisions that a run would take now."""
    query = visit.query
    wanted = {"storeId": query.get("store"), "orderId": query.get("order"), "take": ROWS}
    found = await visit.facade.ask("GET", "/api/reminders/preview", query=wanted)
    due = [row for row in found["results"] if row["decision"] == "remind"]
    others = [row for row in found["results"] if row["decision"] != "remind"]
    stores = await visit.facade.ask("GET", "/api/stores")
    return visit.page(
        "reminders.html",
        found=found,
        due=due,
        others=others,
        # The preview is full: more orders may be due than it lists.
        is_cut=sum(row["decision"] not in _NEVER_DUE for row in found["results"]) >= ROWS,
        counts=Counter(row["decision"] for row in others).most_common(),
        reasons=REASONS,
        stores=stores,
    )
