"""The queue: reviews that wait for a decision, oldest first. Reported ones may be public already."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from starlette.responses import Response

from console.api_client import if_in_time
from console.parameters import choice
from console.reviews import reviews_of
from console.screens import ROWS, Screens
from console.undo import offered, withdraw
from console.visits import Visit
from domain.permissions import Permission
from domain.reviews_facts import ReasonCode
from domain.timestamps import timestamp

_MOST_COUNTED: Final = 2_000
"""Length of the queue from which the results of filters aren't counted: no index covers most of these counts."""
REPORTED: Final = "reported"
"""The filter for reviews with open reports."""

CHIPS: Final = (
    ("", "", "All"),
    ("only", "flagged", "Flagged"),
    ("only", REPORTED, "Reported"),
    ("only", "photos", "With photos"),
    ("only", "low", "1 or 2 stars"),
)
_FILTERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "": {},
    "flagged": {"flagged": True},
    REPORTED: {"reported": True, "reviewStatus": ["New", "Approved"]},
    "photos": {"hasImages": True},
    "low": {"endRating": 2.49},
}

screens = Screens()


def criteria(query: Mapping[str, str]) -> dict[str, Any]:
    """The search for the query parameters of the queue. Raises Refused: an unknown filter. If that were ignored, a
    decision about all results could include reviews that the visitor meant to exclude."""
    order = choice(query, "order", ("oldest", "newest"), "oldest", noun="sort order")
    return {
        "reviewStatus": "New",
        **_FILTERS[choice(query, "only", tuple(_FILTERS), "", noun="filter")],
        "storeId": query.get("store"),
        "searchPhrase": query.get("q"),
        "sort": f"createdDate:{'desc' if order == 'newest' else 'asc'}",
        "endDate": query.get("until"),
    }


@screens.get("/queue", Permission.READ_REVIEWS, Permission.MODERATE_REVIEWS)
async def queue(visit: Visit) -> Response:
    """One page of rows, without a count, which the page loads afterwards."""
    query, now = visit.query, timestamp(datetime.now(UTC))
    body = {**criteria(query), "take": ROWS, "withTotal": False, "after": query.get("after")}
    undo = offered(visit.request)
    searched = visit.facade.ask("POST", "/api/customerReviews/search", body)
    found, undone = await asyncio.gather(searched, _review_to_undo(visit, undo))
    page = visit.page(
        "queue.html",
        rows=found["results"],
        undo=undo,
        undone=undone,
        since=now,
        next=found.get("next"),
        focus=_row_in_focus(query, found["results"]),
        chips=CHIPS,
        counts={},
        reasons=list(ReasonCode),
        is_filtered=bool(query.keys() & {"only", "store", "q", "after"}),
    )
    if undo:
        withdraw(page)
    return page


def _row_in_focus(query: Mapping[str, str], rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The row that the address names by its place, `createdDate,id`; if that has been decided or deleted since, as on
    its own page, the next one. Without a place the first row, if there is one."""
    moment, _, id = query.get("focus", "").partition(",")
    if not id or not rows:
        return next(iter(rows), None)
    is_newest_first = query.get("order") == "newest"
    behind = (row for row in rows if is_newest_first == ((row["createdDate"], row["id"]) < (moment, id)))
    return next((row for row in rows if row["id"] == id), next(behind, rows[-1]))


async def _review_to_undo(visit: Visit, undo: Mapping[str, str] | None) -> Mapping[str, Any] | None:
    """The review whose decision can be undone; None without one, or if it can't be looked up in time."""
    if undo is None:
        return None
    return next(iter(await if_in_time(reviews_of(visit, [undo["id"]]), [])), None)


@screens.get("/queue/state", Permission.READ_REVIEWS)
async def state(visit: Visit) -> Response:
    """The summary of the queue with its count, loaded after the page."""
    query = {name: value for name, value in visit.query.items() if name != "after"}
    body = {**criteria(query), "take": 1}
    found = await visit.facade.ask("POST", "/api/customerReviews/reviewList", {**body, "sort": "createdDate:asc"})
    return visit.page("queue_state.html", total=found["totalCount"], oldest=next(iter(found["results"]), None))


@screens.get("/queue/chips", Permission.READ_REVIEWS, Permission.MODERATE_REVIEWS)
async def chips(visit: Visit) -> Response:
    """The filters with their counts, loaded after the page."""
    total = await _waiting(visit)
    names = [value for _, value, _ in CHIPS] if total is not None and total < _MOST_COUNTED else []
    counts = await asyncio.gather(*(_total(visit, criteria({**visit.query, "only": name})) for name in names))
    return visit.page("queue_chips.html", chips=CHIPS, counts=dict(zip(names, counts, strict=True)))


@screens.get("/queue/waiting", Permission.READ_REVIEWS, Permission.MODERATE_REVIEWS)
async def waiting(visit: Visit) -> Response:
    """The number of waiting reviews, for the navigation."""
    return visit.page("waiting.html", count=await _waiting(visit), most=None)


async def _waiting(visit: Visit) -> int | None:
    """The number of waiting reviews; None if it can't be had in time."""
    return await _total(visit, {"reviewStatus": "New"})


async def _total(visit: Visit, search: Mapping[str, Any]) -> int | None:
    answer = visit.facade.ask("POST", "/api/customerReviews/search", {**search, "take": 0})
    found = await if_in_time(answer, {"totalCount": None})
    return None if found["totalCount"] is None else int(found["totalCount"])
