"""The list of API keys, which are created and revoked on the command line."""

from starlette.responses import Response

from console.screens import Screens, page_of_rows
from console.visits import Visit
from domain.permissions import Permission

screens = Screens()


@screens.get("/keys", Permission.READ_KEYS)
async def keys(visit: Visit) -> Response:
    """The keys, valid ones first if all are on one page."""
    shown, next = await page_of_rows(visit, "/api/keys", visit.query.get("q"))
    is_part = bool(next or visit.query.keys() & {"q", "after"})
    if not is_part:
        shown.sort(key=lambda key: key["state"] != "valid")
    return visit.page("keys.html", keys=shown, next=next, is_part=is_part)
