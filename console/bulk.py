"""Decisions about many reviews: the selected ones, or all results of a filter, some at a time."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Final

from starlette.responses import RedirectResponse, Response

from console.decisions import command, outcomes, settled
from console.facade import Refused
from console.queue import PATH, criteria
from console.screens import Screens
from console.templating import address
from console.visits import Visit
from domain.permissions import Permission
from domain.reviews_facts import ReasonCode
from domain.timestamps import timestamp

_AT_A_TIME: Final = 500
_WAIT_S: Final = 10
_FILTERS: Final = ("only", "store", "q")
_ALL: Final = f"{PATH}/all"

screens = Screens()


@screens.post("/queue/bulk", Permission.MODERATE_REVIEWS)
async def decide(visit: Visit) -> Response:
    """Decide about the selected reviews, as far as they still wait; or go on to all results."""
    form = await visit.form()
    filters = {name: str(form[name]) for name in _FILTERS if form.get(name)}
    if form.get("action") == "all":
        return RedirectResponse(address(_ALL, filters, until=timestamp(datetime.now(UTC))), 303)
    ids = [str(id) for id in form.getlist("ids")]
    if not ids:
        raise Refused(422, {"detail": "No review is selected. Select some, and send it again."})
    counts = outcomes(await settled(command(visit, form, ids, "New", wait=_WAIT_S)))
    return visit.page("bulk_done.html", counts=counts, back=address(PATH, filters))


@screens.get("/queue/all", Permission.READ_REVIEWS, Permission.MODERATE_REVIEWS)
async def all_results(visit: Visit) -> Response:
    """The number of results, and of those that are done."""
    body = {**criteria(visit.query), "take": 0}
    found = await visit.facade.ask("POST", "/api/customerReviews/reviewList", body)
    done = {name[2:]: int(number) for name, number in visit.query.items() if name[:2] == "n-" and number.isdigit()}
    return visit.page("bulk_all.html", total=found["totalCount"], counts=done, reasons=list(ReasonCode))


@screens.post("/queue/all", Permission.READ_REVIEWS, Permission.MODERATE_REVIEWS)
async def decide_some(visit: Visit) -> Response:
    """Decide about some of the results, and go on with the rest: what is decided is no result any more."""
    form, query = await visit.form(), visit.query
    body = {**criteria(query), "take": _AT_A_TIME, "withTotal": False}
    found = await visit.facade.ask("POST", "/api/customerReviews/reviewList", body)
    counts = Counter({name: int(number) for name, number in query.items() if name[:2] == "n-" and number.isdigit()})
    if ids := [row["id"] for row in found["results"]]:
        answer = await settled(command(visit, form, ids, "New", wait=_WAIT_S))
        counts.update({f"n-{word}": number for word, number in outcomes(answer).items()})
    sent = {name: form.get(name) for name in ("action", "reasonCode")}
    return RedirectResponse(address(_ALL, query, **sent, **counts), 303)
