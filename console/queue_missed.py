"""News that an open page of the queue may have missed: other reviews, and the current state of its own."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from console.api_client import if_in_time, segment
from console.content_hashes import staleness
from console.queue import REPORTED, criteria
from console.reviews import reviews_of
from console.screens import Screens
from console.visits import Visit
from domain.permissions import Permission

_MOST_MISSED: Final = 500
_MOST_CHANGED: Final = 100
_MOST_REPORTED: Final = 50

screens = Screens()


@screens.post("/queue/since", Permission.READ_REVIEWS)
async def since(visit: Visit) -> Response:
    """Ids of reviews that a filter finds and an open page doesn't show yet, for its script: those submitted since,
    those of `ids` (named in news) and, if it `missed` news, those changed since, except its own `rows`."""
    form = await visit.form()
    since, heard = form.get("since", ""), form.getlist("ids")[-_MOST_MISSED:]
    search = {**criteria(visit.query), "take": _MOST_MISSED, "withTotal": False}
    searches = [{**search, "startDate": since}]
    if heard:
        searches.append({**search, "ids": heard})
    found = await asyncio.gather(*(visit.facade.ask("POST", "/api/customerReviews/search", each) for each in searches))
    rows = [row for each in found for row in each["results"]]
    new_ids = [row["id"] for row in rows if row["id"] in heard or row["modifiedDate"] >= since]
    if "missed" in form:
        new_ids += await _changed(visit, search, since, {*heard, *form.getlist("rows")})
    return JSONResponse({"ids": [*dict.fromkeys(new_ids)]})


async def _changed(visit: Visit, search: Mapping[str, Any], since: str, known: Collection[str]) -> list[str]:
    """Ids of reviews that a filter finds and that were changed since or, with the filter REPORTED, reported since;
    without the `known` ones, and those that can't be looked up in time. Raises Refused."""
    latest = {**search, "sort": "modifiedDate:desc", "take": _MOST_CHANGED}
    answer = visit.facade.ask("POST", "/api/customerReviews/search", latest)
    rows = [row for row in (await if_in_time(answer, {"results": []}))["results"] if row["id"] not in known]
    changed = [row["id"] for row in rows if row["modifiedDate"] >= since]
    if visit.query.get("only") != REPORTED:
        return changed
    others = [row["id"] for row in rows if row["modifiedDate"] < since][:_MOST_REPORTED]
    reported = await asyncio.gather(*(if_in_time(last_reported(visit, id), "") for id in others))
    return [*changed, *(id for id, at in zip(others, reported, strict=True) if at >= since)]


async def last_reported(visit: Visit, id: str) -> str:
    """Timestamp of the newest report about a review; empty if there is no report or review. Raises Refused."""
    found = await visit.facade.find(f"/api/customerReviews/{segment(id)}/reports", {"take": 1})
    return next((str(report["at"]) for report in (found or {"results": ()})["results"]), "")


@screens.post("/queue/rows", Permission.READ_REVIEWS, Permission.MODERATE_REVIEWS)
async def rows_now(visit: Visit) -> Response:
    """Current state of an open page's reviews, for its script, which may have missed news. Status None: deleted."""
    form = await visit.form()
    ids = form.getlist("ids")
    by_id = {row["id"]: row for row in await reviews_of(visit, ids)}
    return JSONResponse({"results": [_current_state(id, by_id.get(id), form.get(f"seen-{id}", "")) for id in ids]})


def _current_state(id: str, row: Mapping[str, Any] | None, seen: str) -> dict[str, Any]:
    if row is None:
        return {"id": id, "status": None, "by": None, "reason": None, "isChanged": False}
    is_changed = staleness(seen, row, "") is not None
    decided = {"status": row["reviewStatus"], "by": row["moderator"], "reason": row["reasonCode"]}
    return {"id": id, **decided, "isChanged": is_changed}
