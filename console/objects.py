"""Rated objects: a search by name, and a page for one with the values of both methods, histogram and trend."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from console.api_client import if_in_time
from console.screens import ROWS, Screens
from console.templating import address
from console.visits import Visit, key_of
from domain.permissions import Permission
from storage.ratings.objects import MOST_COUNTED, MOST_FOUND

_HEIGHT: Final = 64
_STEP: Final = 20
_GAP: Final = 4

screens = Screens()


class Bar(NamedTuple):
    """The bar of a week in the drawing of a trend, in units of the drawing."""

    x: int
    y: int
    width: int
    height: int


@screens.get("/objects", Permission.READ_RATINGS)
async def objects(visit: Visit) -> Response:
    """Rated objects by name."""
    query = visit.query
    body = {
        "searchPhrase": query.get("q"),
        "storeId": query.get("store"),
        "take": ROWS,
        "after": query.get("after"),
    }
    found = await visit.facade.ask("POST", "/api/rating/objects", body)
    return visit.page(
        "objects.html",
        rows=found["results"],
        next=found.get("next"),
        is_partial=found["isPartial"],
        most_found=MOST_FOUND,
    )


@screens.get("/objects/{type}/{id:path}", Permission.READ_RATINGS)
async def one_object(visit: Visit) -> Response:
    """One object with a page of its ratings. Without approved reviews it has none yet, but a link to its reviews."""
    type, id, query = visit.path["type"], visit.path["id"], visit.query
    path = f"/api/rating/objects/{visit.segment('type')}/{visit.segment('id')}"
    wanted = {"storeId": query.get("store"), "take": ROWS, "after": query.get("after")}
    found = await visit.facade.find(path, wanted) or await _unrated(visit, type, id)
    weeks = found["trend"]["weeks"] if found["trend"] else []
    return visit.page(
        "object.html",
        found=found,
        next=found.get("next"),
        weeks=weeks,
        bars=_bars(weeks),
        width=_STEP * len(weeks),
        height=_HEIGHT,
        most_counted=MOST_COUNTED,
    )


@screens.post("/objects/{type}/{id:path}", Permission.RECALCULATE_RATINGS)
async def recount(visit: Visit) -> Response:
    """Recount all ratings of the object's store; without a store, all ratings of the service."""
    form = await visit.form()
    store = {"storeId": form.get("storeId", "")}
    await visit.facade.command("POST", "/api/rating/calculateStore", None, store, key=key_of(form))
    here = f"/console/objects/{visit.segment('type')}/{visit.segment('id')}"
    return visit.back(address(here, visit.query), "recounted")


async def _unrated(visit: Visit, type: str, id: str) -> dict[str, Any]:
    """An object without ratings, with the name in its newest review, if the visitor may see that."""
    name = None
    if visit.may(Permission.READ_REVIEWS):
        body = {"entityType": type, "entityIds": [id], "take": 1, "withTotal": False}
        found = await if_in_time(visit.facade.ask("POST", "/api/customerReviews/search", body), {"results": []})
        name = next((row["entityName"] for row in found["results"]), None)
    return {"entityType": type, "entityId": id, "entityName": name, "ratings": [], "trend": None}


def _bars(weeks: Sequence[Mapping[str, Any]]) -> list[Bar]:
    """The bars of a trend, with heights proportional to the number of reviews."""
    most = max((week["reviewCount"] for week in weeks), default=0) or 1
    heights = [round(_HEIGHT * week["reviewCount"] / most) for week in weeks]
    return [Bar(_STEP * at, _HEIGHT - height, _STEP - _GAP, height) for at, height in enumerate(heights)]
