"""The registered object types, and a lookup of objects by their resolvers."""

from typing import Any

from starlette.responses import Response

from console.api_client import Refused, segment
from console.screens import Screens
from console.visits import Visit
from domain.permissions import Permission

screens = Screens()


@screens.get("/entity-types", Permission.READ_REVIEWS)
async def entity_types(visit: Visit) -> Response:
    """The registered types, and the object named in the query."""
    types = await visit.facade.ask("GET", "/api/entityTypes")
    found, refused = await _look_up(visit)
    picture = str((found or {}).get("imageUrl") or "")
    return visit.page(
        "entity_types.html",
        types=types,
        found=found,
        refusal=refused,
        # The page's content security policy blocks images of other origins.
        is_shown=any(picture.startswith(f"{origin}/") for origin in visit.options.images.split()),
    )


async def _look_up(visit: Visit) -> tuple[dict[str, Any] | None, Refused | None]:
    type, id = visit.query.get("type"), visit.query.get("id")
    if not type or not id:
        return None, None
    try:
        path = f"/api/entityTypes/{segment(type)}/{segment(id)}"
        return await visit.facade.ask("GET", path), None
    except Refused as refused:
        if refused.status not in (404, 422, 503):
            raise
        return None, refused
