"""Decisions about many reviews: the selected ones, or all results of a filter, some at a time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from starlette.datastructures import FormData
from starlette.responses import RedirectResponse, Response

from console.decisions import decide_by_status, marks_in, stale
from console.facade import Refused
from console.queue import criteria
from console.screens import Screens
from console.templating import address
from console.undo import PATH
from console.visits import Visit
from domain.permissions import Permission
from domain.reviews_facts import ReasonCode
from domain.timestamps import timestamp

_AT_A_TIME: Final = 500
_WAIT_S: Final = 10
_FILTERS: Final = ("only", "store", "q", "order")
_ALL: Final = f"{PATH}/all"
_KEY_REUSED: Final = "idempotency-key-reused"
_NUMBER: Final = re.compile(r"[0-9]{1,9}")

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
    other = await stale(visit, marks_in(form, ids), str(form.get("action", "")))
    shown = {id: str(form.get(f"status-{id}", "New")) for id in ids if id not in other}
    counts = await decide_by_status(visit, form, shown, wait=_WAIT_S)
    counts.update(other.values())
    return visit.page("bulk_done.html", counts=counts, back=address(PATH, filters))


@screens.get("/queue/all", Permission.READ_REVIEWS, Permission.MODERATE_REVIEWS)
async def all_results(visit: Visit) -> Response:
    """The number of results, and the decisions to choose from. Opening the page decides nothing."""
    return await _progress(visit, {}, {}, goes_on=False)


@screens.post("/queue/all", Permission.READ_REVIEWS, Permission.MODERATE_REVIEWS)
async def decide_some(visit: Visit) -> Response:
    """Decide about some of the results. The answer goes on with the rest by itself, while decisions take effect."""
    form = await visit.form()
    body = {**criteria(visit.query), "take": _AT_A_TIME, "withTotal": False}
    found = await visit.facade.ask("POST", "/api/customerReviews/reviewList", body)
    counts, now = Counter(_counts_in(form)), Counter[str]()
    sent = {name: str(form.get(name, "")) for name in ("action", "reasonCode")}
    if shown := {row["id"]: row["reviewStatus"] for row in found["results"]}:
        try:
            now = await decide_by_status(visit, form, shown, wait=_WAIT_S)
        except Refused as refused:
            if refused.kind != _KEY_REUSED:
                raise
            return await _progress(visit, counts, sent, goes_on=False, is_repeat=True)
        counts.update(now)
    return await _progress(visit, counts, sent, goes_on=bool(now["applied"] + now["unchanged"]) and not now["accepted"])


async def _progress(
    visit: Visit, counts: Mapping[str, int], sent: Mapping[str, str], *, goes_on: bool, is_repeat: bool = False
) -> Response:
    """The page with the number of results left and of those done by their outcomes. `sent` is what is repeated;
    `is_repeat`: the same step was sent before, about others."""
    body = {**criteria(visit.query), "take": 0}
    found = await visit.facade.ask("POST", "/api/customerReviews/reviewList", body)
    return visit.page(
        "bulk_all.html",
        total=found["totalCount"],
        # Of the address, so that it stays from step to step; one without it begins now.
        here=address(_ALL, visit.query, until=visit.query.get("until") or timestamp(datetime.now(UTC))),
        counts=counts,
        sent=sent,
        goes_on=goes_on,
        is_repeat=is_repeat,
        reasons=list(ReasonCode),
    )


def _counts_in(form: FormData) -> dict[str, int]:
    """The numbers of the steps before, by outcome, as the page carries them."""
    fields = ((name, str(value)) for name, value in form.items())
    return {name[2:]: int(text) for name, text in fields if name[:2] == "n-" and _NUMBER.fullmatch(text)}
