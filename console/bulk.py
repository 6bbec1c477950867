"""Bulk decisions: about the selected reviews, or about all results of a filter in batches."""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from console.api_client import KEY_REUSED, Refused
from console.content_hashes import CHANGED, text_of_row, texts_seen
from console.decisions import decide_by_status, hashes_in, outcomes, stale
from console.queue import CHIPS, REPORTED, criteria
from console.queue_missed import last_reported
from console.reviews import reviews_of
from console.screens import Screens
from console.templating import address
from console.undo import PATH
from console.visits import Visit
from domain.permissions import Permission
from domain.reviews_facts import ReasonCode
from domain.timestamps import timestamp

_AT_A_TIME: Final = 500
_REPORTED_AT_A_TIME: Final = 50
_FILTERS: Final = ("only", "store", "q", "order")
_ALL: Final = f"{PATH}/all"
_DONE: Final = f"{PATH}/bulk"
_MOST_NAMED: Final = 20
"""Maximum number of skipped reviews that are named: more would make the address too long."""
_NUMBER: Final = re.compile(r"[0-9]{1,9}")

screens = Screens()


@screens.post("/queue/bulk", Permission.MODERATE_REVIEWS)
async def decide(visit: Visit) -> Response:
    """Decide about the selected reviews that are still as shown, or go on to all results."""
    form = await visit.form()
    filters = {name: form[name] for name in _FILTERS if form.get(name)}
    if form.get("action") == "all":
        return RedirectResponse(address(_ALL, filters, until=timestamp(datetime.now(UTC))), 303)
    ids = form.getlist("ids")
    if not ids:
        raise Refused(422, {"detail": "No review is selected. Select at least one, and try again."})
    seen = hashes_in(form, ids)
    other = await stale(visit, seen, form.get("action", ""))
    shown = {id: form.get(f"status-{id}", "New") for id in ids if id not in other}
    results = [*await decide_by_status(visit, form, shown, texts_seen(seen)), *other.values()]
    counts = {f"n-{word}": number for word, number in outcomes(results, visit.caller.subject).items()}
    left = [("left", each["id"]) for each in results if each["outcome"] == "refused"]
    # A redirect, so that reloading the page decides nothing again, and going back resends no form.
    done = address(_DONE, {**filters, **counts}, action=form.get("action"), after=form.get("after"))
    return RedirectResponse(f"{done}&{urlencode(left[:_MOST_NAMED])}" if left else done, 303)


@screens.get("/queue/bulk", Permission.MODERATE_REVIEWS)
async def done(visit: Visit) -> Response:
    """The number of selected reviews by outcome, and the skipped ones in their current state."""
    filters = {name: visit.query[name] for name in (*_FILTERS, "after") if name in visit.query}
    left = visit.request.query_params.getlist("left")[:_MOST_NAMED]
    rows = await reviews_of(visit, left) if left and visit.may(Permission.READ_REVIEWS) else []
    counts, action = _counts_in(visit.query), visit.query.get("action")
    return visit.page("bulk_done.html", counts=counts, action=action, rows=rows, back=address(PATH, filters))


@screens.get("/queue/all", Permission.READ_REVIEWS, Permission.MODERATE_REVIEWS)
async def all_results(visit: Visit) -> Response:
    """The number of results, and a choice of decisions. Opening the page decides nothing."""
    return await _progress_page(visit, {}, {}, goes_on=False)


@screens.post("/queue/all", Permission.READ_REVIEWS, Permission.MODERATE_REVIEWS)
async def decide_some(visit: Visit) -> Response:
    """Decide about a batch of the results. The page goes on with the next by itself while decisions take effect."""
    form = await visit.form()
    shown, texts, left = await _next_batch(visit)
    earlier = {**_counts_in(form), CHANGED: left}
    counts, now = Counter({word: number for word, number in earlier.items() if number}), Counter[str]()
    sent = {name: form.get(name, "") for name in ("action", "reasonCode")}
    if shown:
        try:
            results = await decide_by_status(visit, form, shown, texts)
        except Refused as refused:
            if refused.kind != KEY_REUSED:
                raise
            return await _progress_page(visit, counts, sent, goes_on=False, is_repeat=True)
        now = outcomes(results, visit.caller.subject)
        counts.update(now)
    return await _progress_page(
        visit, counts, sent, goes_on=bool(now["applied"] + now["unchanged"]) and not now["accepted"]
    )


async def _next_batch(visit: Visit) -> tuple[dict[str, str], dict[str, str], int]:
    """The next batch: statuses by id, empty once all results are decided about; hashes of their texts by id; and the
    number of skipped reviews, changed or reported since the page of all results was opened. Raises Refused."""
    until = visit.query.get("until") or timestamp(datetime.now(UTC))
    is_reported = visit.query.get("only") == REPORTED
    take = _REPORTED_AT_A_TIME if is_reported else _AT_A_TIME
    body = {**criteria({**visit.query, "until": until}), "take": take, "withTotal": False}
    left = 0
    while True:
        found = await visit.facade.ask("POST", "/api/customerReviews/search", body)
        rows = found["results"]
        latest = [row["modifiedDate"] for row in rows]
        if is_reported:
            reported = await asyncio.gather(*(last_reported(visit, row["id"]) for row in rows))
            latest = [max(moments) for moments in zip(latest, reported, strict=True)]
        some = [row for row, at in zip(rows, latest, strict=True) if at <= until]
        left += len(rows) - len(some)
        if some or "next" not in found:
            statuses = {row["id"]: row["reviewStatus"] for row in some}
            return statuses, {row["id"]: text_of_row(row) for row in some}, left
        body["after"] = found["next"]


async def _progress_page(
    visit: Visit, counts: Mapping[str, int], sent: Mapping[str, str], *, goes_on: bool, is_repeat: bool = False
) -> Response:
    """The page with the number of remaining results, and of those done by outcome. `sent`: form fields of the next
    step; `is_repeat`: this step was sent before, about other reviews."""
    body = {**criteria(visit.query), "take": 0}
    found = await visit.facade.ask("POST", "/api/customerReviews/reviewList", body)
    return visit.page(
        "bulk_all.html",
        only=next((label for name, value, label in CHIPS if name and value == visit.query.get(name)), None),
        total=max(0, found["totalCount"] - counts.get(CHANGED, 0)),
        # `until` comes from the address, so that all steps share it; the first step sets it.
        here=address(_ALL, visit.query, until=visit.query.get("until") or timestamp(datetime.now(UTC))),
        counts=counts,
        sent=sent,
        goes_on=goes_on,
        is_repeat=is_repeat,
        reasons=list(ReasonCode),
    )


def _counts_in(form: Mapping[str, str]) -> dict[str, int]:
    """The counts by outcome of earlier steps, as pages carry them in a form or an address."""
    return {name[2:]: int(text) for name, text in form.items() if name[:2] == "n-" and _NUMBER.fullmatch(text)}
