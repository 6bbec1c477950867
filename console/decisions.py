"""Decisions about reviews, one or many.

Each has up to three guards, which `console.content_hashes` explains: the hash of the content (`seen`), `textHashes`
and `expectedStatus`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from console.api_client import LONG_WAIT_S, WAIT_S, Refused, segment, settled
from console.content_hashes import CHANGED, KEPT, staleness, texts_seen
from console.fields import Form
from console.reviews import review_page, reviews_of
from console.screens import Screens
from console.undo import PATH, RESTORING, offer
from console.visits import Visit, key_of
from domain.permissions import Permission

_STATUS_AFTER: Final = {action: status for status, action in RESTORING.items()}
"""The decisions about a review, each with the status after it."""

_STATUS_CHANGED: Final = "status-changed"
OWN: Final = "own"
"""The outcome of a review that is left alone because the visitor has decided about it before."""
_STALE: Final = {
    CHANGED: "The review was changed in the meantime. Read it again, then decide.",
    KEPT: "Somebody has kept the review in the meantime, and settled its reports. Look at it again, then decide.",
}

screens = Screens()


@screens.post("/reviews/{id}/decide", Permission.MODERATE_REVIEWS)
async def decide(visit: Visit) -> Response:
    """Decide about a review if its status and content are still as the page showed them."""
    form, id = await visit.form(), visit.path["id"]
    action, expected = form.get("action", ""), form.get("expected", "")
    back = _way_back(form.get("back", ""), id)
    try:
        seen = {id: form.get("seen", "")}
        await _check_seen(visit, seen, action, _undone_status(form))
        answer = await _command(visit, form, [id], expected, texts_seen(seen))
    except Refused as refused:
        return await _explain(visit, refused, back, "reject")
    response = visit.after(answer, back, _STATUS_AFTER[action].lower())
    # A decision that only settles reports can't be undone, as the status is the same. Nor can an undo.
    can_undo = expected in RESTORING and expected != _STATUS_AFTER[action] and "undoing" not in form
    if can_undo and back.partition("?")[0] == PATH:
        undo = {"id": id, "action": RESTORING[expected], "expected": _STATUS_AFTER[action]}
        offer(response, {**undo, "seen": form.get("seen", "")})
    return response


@screens.post("/queue/decisions", Permission.MODERATE_REVIEWS)
async def decide_together(visit: Visit) -> Response:
    """Take one decision about several reviews, except those whose status or content isn't as the page showed it. The
    answer is for its script: the outcome of each, none for decisions that have yet to take effect."""
    form = await visit.form()
    given, expected = form.getlist("ids"), form.get("expected", "")
    seen = hashes_in(form, given)
    other = await stale(visit, seen, form.get("action", ""), _undone_status(form))
    results = [*other.values()]
    if not other or len(other) < len(given):
        ids = [id for id in given if id not in other]
        answer = await settled(_command(visit, form, ids, expected, texts_seen(seen)))
        results += answer.get("results", [])
    return JSONResponse({"results": results})


@screens.post("/reviews/{id}/delete", Permission.DELETE_REVIEWS)
async def delete(visit: Visit) -> Response:
    """Delete a review for good if its status and content are still as the page showed them."""
    form, id = await visit.form(), visit.path["id"]
    seen = {id: form.get("seen", "")}
    query = {"reason": form.get("reason"), "expectedStatus": form.get("expected")}
    try:
        await _check_seen(visit, seen, "delete")
        body = _body([id], texts_seen(seen))
        answer = await visit.facade.command("DELETE", "/api/customerReviews", body, query, key=key_of(form))
    except Refused as refused:
        return await _explain(visit, refused, _way_back("", id), "delete")
    return visit.after(answer, _way_back(form.get("back", ""), ""), "deleted")


def hashes_in(form: Form, ids: Iterable[str]) -> dict[str, str]:
    """The hashes of reviews in a form, by id."""
    return {id: form.get(f"seen-{id}", "") for id in ids}


async def stale(visit: Visit, seen: Mapping[str, str], action: str, undone: str = "") -> dict[str, dict[str, Any]]:
    """The results of those reviews that are left alone because they aren't as the page showed them, by id. `seen` has
    the hashes by id, empty for reviews that no page showed; `undone`: the status set by the decision that is undone.
    Empty while the database is unavailable: decisions are accepted then, and take effect later on reviews that still
    have the expected status. Raises Refused."""
    shown = {id: seen_hash for id, seen_hash in seen.items() if seen_hash}
    if not shown or not visit.may(Permission.READ_REVIEWS):
        return {}
    try:
        rows = await reviews_of(visit, [*shown])
    except Refused as refused:
        if refused.status != 503:
            raise
        return {}
    results: dict[str, dict[str, Any]] = {}
    for row in rows:
        result = {"id": row["id"], "outcome": "refused"}
        if reason := staleness(shown[row["id"]], row, action):
            results[row["id"]] = {**result, "reason": reason}
        elif undone == row["reviewStatus"] and _is_of_others(visit, row):
            # Somebody else has decided the same: for the API the review is as expected.
            status = {"status": row["reviewStatus"], "moderator": row["moderator"]}
            results[row["id"]] = {**result, "reason": _STATUS_CHANGED, **status}
    return results


async def decide_by_status(
    visit: Visit, form: Form, statuses: Mapping[str, str], texts: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Take a form's decision about the reviews that still have the status with which they were shown (`statuses`, by
    id) and the same text (hashes in `texts`), and return the result of each. Raises Refused."""
    results: list[dict[str, Any]] = []
    for expected in sorted(set(statuses.values())):
        ids = [id for id, status in statuses.items() if status == expected]
        key = f"{key_of(form)}-{expected}"
        answer = await settled(_command(visit, form, ids, expected, texts, wait=LONG_WAIT_S, key=key))
        results += answer.get("results") or [{"id": id, "outcome": answer["outcome"]} for id in ids]
    return results


async def _command(
    visit: Visit,
    form: Form,
    ids: list[str],
    expected: str,
    texts: Mapping[str, str],
    *,
    wait: int = WAIT_S,
    key: str | None = None,
) -> dict[str, Any]:
    """Take a form's decision about those of these reviews that have the expected status and, if `texts` has its hash,
    that text. The answer comes after `wait` seconds at most. Raises Refused, also if none took effect."""
    action = form.get("action", "")
    if action not in _STATUS_AFTER:
        raise Refused(422, {"detail": f"Choose one of {', '.join(_STATUS_AFTER)}."})
    query = {"expectedStatus": expected, "reason": form.get("reason")}
    if action == "reject":
        query["reasonCode"] = form.get("reasonCode")
        # An undoing has no such field: what was rejected without a reason is so again.
        if query["reasonCode"] == "":
            raise Refused(422, {"detail": "Choose a reason for the rejection, and try again."})
    path = f"/api/customerReviews/{action}"
    key, body = key or key_of(form), _body(ids, texts)
    answer: dict[str, Any] = await visit.facade.command("POST", path, body, query, key=key, wait=wait)
    return answer


def _body(ids: Sequence[str], texts: Mapping[str, str]) -> dict[str, Any]:
    """The request body of a decision about these reviews."""
    return {"ids": ids, "textHashes": {id: texts[id] for id in ids if id in texts}}


def _undone_status(form: Form) -> str:
    """The status set by the decision that a form undoes; empty if it is no undo."""
    return form.get("expected", "") if "undoing" in form else ""


def _is_of_others(visit: Visit, row: Mapping[str, Any]) -> bool:
    """True if the last decision was somebody else's; False where nobody signs in, as that is unknown."""
    return None not in (visit.caller.subject, row["moderator"]) and row["moderator"] != visit.caller.subject


async def _check_seen(visit: Visit, seen: Mapping[str, str], action: str, undone: str = "") -> None:
    """Raises Refused if a review isn't as the form showed it, or the decision to undo is somebody else's."""
    if other := await stale(visit, seen, action, undone):
        raise Refused(409, {"results": [*other.values()]})


async def _explain(visit: Visit, refused: Refused, back: str, sent: str) -> Response:
    """The page that explains why a decision about one review changed nothing: the review itself if a note was typed in
    its form `sent`, else one with a link back. Raises Refused: any other refusal, or the script sent the request."""
    told = _in_words(refused, visit.caller.subject)
    form = await visit.form()
    if form.get("reason"):
        return await review_page(visit, sent, form, told)
    if told.status != 409 or visit.wants_json:
        raise refused
    return visit.problem(told, back=back)


def _in_words(refused: Refused, caller: str | None) -> Refused:
    """The refusal of a decision about one review, worded for moderators."""
    if refused.status != 409 or not refused.results:
        return refused
    result = refused.results[0]
    if detail := _STALE.get(result.get("reason", "")):
        return Refused(409, {"detail": detail})
    if result.get("reason") == _STATUS_CHANGED:
        by, status = result.get("moderator"), result.get("status") or "decided"
        if _is_own(result, caller):
            return Refused(409, {"detail": f"It is {status} already, by your own decision."})
        return Refused(409, {"detail": f"{by or 'Somebody else'} was faster: it is {status}. Nothing was changed."})
    if result["outcome"] == "not-found":
        return Refused(409, {"detail": "The review no longer exists: somebody has deleted it."})
    return refused


def _way_back(given: str, id: str) -> str:
    """The page to go back to: always one of the console, whatever the form says."""
    own = given.startswith("/console/") and "\\" not in given
    return given if own else (f"/console/reviews/{segment(id)}" if id else PATH)


def outcomes(results: Iterable[Mapping[str, Any]], caller: str | None) -> Counter[str]:
    """The number of reviews by result: the reason of a refusal, else the outcome."""
    return Counter(OWN if _is_own(each, caller) else each.get("reason") or each["outcome"] for each in results)


def _is_own(result: Mapping[str, Any], caller: str | None) -> bool:
    """True if the caller has decided about this review before."""
    by = result.get("moderator")
    return result.get("reason") == _STATUS_CHANGED and by is not None and by == caller
