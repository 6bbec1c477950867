"""The choice of a store for a list: a separate page, so that lists needn't load all stores."""

from collections.abc import Sequence
from typing import Any, Final

from starlette.responses import Response

from console.api_client import Refused
from console.screens import Screens
from console.visits import Visit
from domain.permissions import Permission

_LISTS: Final = {"queue": "/console/queue", "reviews": "/console/reviews"}

screens = Screens()


@screens.get("/choose-store/{list}", Permission.READ_REVIEWS)
async def choose(visit: Visit) -> Response:
    """The stores that the visitor may see, each linking to the list with its filters. `stores` is None for visitors who
    may not read them: they type an id."""
    path = _LISTS.get(visit.path["list"])
    if path is None:
        raise Refused(404, {"detail": "There is no such page."})
    return visit.page("store_choice.html", path=path, stores=await _stores(visit))


async def _stores(visit: Visit) -> Sequence[dict[str, Any]] | None:
    if visit.may(Permission.READ_SETTINGS):
        stores: list[dict[str, Any]] = await visit.facade.ask("GET", "/api/stores")
        return stores
    own = visit.caller.stores
    return None if own is None else [{"id": id, "name": None} for id in sorted(own)]
