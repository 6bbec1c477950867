"""The list of API keys, which are created and revoked on the command line."""

from starlette.responses import Response

from console.screens import ROWS, Screens
from console.visits import Visit
from domain.permissions import Permission

screens = Screens()


@screens.get("/keys", Permission.READ_KEYS)
async def keys(visit: Visit) -> Response:
    """The keys, valid ones first if all are on one page."""
    query = {"searchPhrase": visit.query.get("q"), "after": visit.query.get("after"), "take": ROWS + 1}
    found = await visit.facade.ask("GET", "/api/keys", query=query)
    shown, next = found[:ROWS], found[ROWS - 1]["id"] if len(found) > ROWS else None
    is_part = bool(next or visit.query.keys() & {"q", "after"})
    if not is_part:
        shown.sort(key=lambda key: key["state"] != "valid")
    return visit.page("keys.html", keys=shown, next=next, is_part=is_part)
