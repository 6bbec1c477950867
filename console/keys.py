"""The list of API keys, which are created and revoked on the command line."""

from starlette.responses import Response

from console.screens import Screens
from console.visits import Visit
from domain.permissions import Permission

screens = Screens()


@screens.get("/keys", Permission.READ_KEYS)
async def keys(visit: Visit) -> Response:
    """All keys, valid ones first."""
    found = await visit.facade.ask("GET", "/api/keys")
    found.sort(key=lambda key: key["state"] != "valid")
    return visit.page("keys.html", keys=found)
