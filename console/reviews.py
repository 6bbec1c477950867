"""Reviews: the list, and a page for one with everything that a decision needs."""

import asyncio
import json
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final

from starlette.responses import Response

from console.api_client import Refused, segment
from console.content_hashes import check_seen, hash_of_reply, hash_of_review
from console.fields import Form, in_one_line, number, shown_again
from console.parameters import choice
from console.screens import ROWS, Screens
from console.visits import Visit, key_of
from domain.permissions import Permission
from domain.reviews import ReviewStatus
from domain.reviews_facts import ReasonCode

_OTHERS: Final = 5
_HISTORY: Final = 20
_REPORTS: Final = 100
_PARTS: Final = {
    "impact": "the rating",
    "flags": "the reasons for its flags",
    "history": "its history",
    "orders": "the author's orders",
    "others": "the author's other reviews",
    "reports": "the reports about it",
}
_TEXTS: Final = ("title", "review", "userName")

screens = Screens()


@screens.get("/reviews", Permission.READ_REVIEWS)
async def reviews(visit: Visit) -> Response:
    """Reviews by filters, newest first."""
    query = visit.query
    body = {
        "reviewStatus": query.get("status"),
        "storeId": query.get("store"),
        "userId": query.get("author"),
        "entityType": query.get("type"),
        "entityIds": [query["object"]] if "object" in query else None,
        "searchPhrase": query.get("q"),
        "unseenImages": True if choice(query, "photos", ("", "unseen"), "", noun="choice of photos") else None,
        "take": ROWS,
        "withTotal": False,
        "after": query.get("after"),
    }
    found = await visit.facade.ask("POST", "/api/customerReviews/search", body)
    statuses = [status.label for status in ReviewStatus]
    return visit.page("reviews.html", rows=found["results"], next=found.get("next"), statuses=statuses)


@screens.get("/reviews/{id}", Permission.READ_REVIEWS)
async def review(visit: Visit) -> Response:
    """One review with its forms and its context."""
    return await review_page(visit)


@screens.get("/reviews/{id}/context", Permission.READ_REVIEWS)
async def context(visit: Visit) -> Response:
    """The context of a review, beside its row in the queue."""
    row = await visit.facade.ask("GET", f"/api/customerReviews/{visit.segment('id')}")
    return visit.page("review_context.html", row=row, reasons=list(ReasonCode), **await _context(visit, row))


@screens.post("/reviews/{id}/reply", Permission.REPLY_TO_REVIEWS)
async def reply(visit: Visit) -> Response:
    """Write or change the store's reply, or remove it."""
    form, id = await visit.form(), visit.segment("id")
    path, key = f"/api/customerReviews/{id}/reply", key_of(form)
    is_removal = form.get("action") == "remove"
    text = form.get("text", "")
    body = None if is_removal else {"text": text, "author": form.get("author") or None}
    try:
        await _check_reply(visit, form, body)
        answer = await visit.facade.command("DELETE" if is_removal else "POST", path, body, key=key)
    except Refused as refused:
        return await review_page(visit, "reply", form, refused)
    return visit.after(answer, f"/console/reviews/{id}", "removed" if is_removal else "replied")


@screens.post("/reviews/{id}/edit", Permission.READ_REVIEWS, Permission.MODERATE_REVIEWS)
async def edit(visit: Visit) -> Response:
    """Edit a review as a moderator; its status stays. Only changed fields are sent, so that the others keep what an
    edit by somebody else gives them that hasn't taken effect yet."""
    form, id = await visit.form(), visit.segment("id")
    row = await visit.facade.ask("GET", f"/api/customerReviews/{id}")
    edited = {**{name: _new_text(form, name, row) for name in _TEXTS}, "rating": _new_rating(form, row)}
    # Also true for a form that is sent twice.
    if all(each is None for each in edited.values()):
        return visit.back(f"/console/reviews/{id}", "saved")
    body = {
        "id": row["id"],
        "entityId": row["entityId"],
        "entityType": row["entityType"],
        "storeId": row["storeId"],
        # No author: where nobody signs in, it would count as the author's own edit.
        **edited,
    }
    try:
        check_seen(form, hash_of_review(row), "this review")
        answer = await visit.facade.command("POST", "/api/customerReviews", [body], key=key_of(form))
    except Refused as refused:
        return await review_page(visit, "edit", form, refused)
    return visit.after(answer, f"/console/reviews/{id}", "saved")


@screens.post("/reviews/{id}/images/{imageId}", Permission.MODERATE_REVIEWS)
async def set_image(visit: Visit) -> Response:
    """Hide an image, or show it again."""
    form, id = await visit.form(), visit.segment("id")
    action = "show" if form.get("action") == "show" else "hide"
    path = f"/api/customerReviews/{id}/images/{visit.segment('imageId')}/{action}"
    answer = await visit.facade.command("POST", path, key=key_of(form))
    return visit.after(answer, f"/console/reviews/{id}", "hidden" if action == "hide" else "shown")


@screens.get("/images/{imageId}", Permission.READ_REVIEWS)
async def image(visit: Visit) -> Response:
    """An image of a review, served here as the browser's only credential is the console's cookie. Like all pages it
    isn't cached: the browser's next user may have fewer permissions."""
    content, kind = await visit.facade.content(f"/api/images/{visit.segment('imageId')}", visit.query)
    return Response(content, media_type=kind)


async def reviews_of(visit: Visit, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Those of these reviews that exist and that the visitor may see. Raises Refused."""
    search = {"ids": ids, "take": len(ids), "withTotal": False}
    found = await visit.facade.ask("POST", "/api/customerReviews/search", search)
    rows: list[dict[str, Any]] = found["results"]
    return rows


async def _check_reply(visit: Visit, form: Form, body: Mapping[str, Any] | None) -> None:
    """Raises Refused if the reply isn't as the form showed it. Not for visitors who may not read reviews."""
    if "seen" not in form or not visit.may(Permission.READ_REVIEWS):
        return
    row = await visit.facade.ask("GET", f"/api/customerReviews/{visit.segment('id')}")
    reply = row["reply"]
    is_done = body == ({"text": reply["text"], "author": reply["author"]} if reply else None)
    check_seen(form, hash_of_reply(row), "the reply", is_done=is_done)


async def review_page(
    visit: Visit, sent: str = "", form: Form | None = None, refused: Refused | None = None
) -> Response:
    """The page of a review with its forms. A refused one, named by `sent`, keeps its input. Raises Refused."""
    if refused and (refused.status == 401 or visit.wants_json or not visit.may(Permission.READ_REVIEWS)):
        raise refused
    row = await visit.facade.ask("GET", f"/api/customerReviews/{visit.segment('id')}")
    forms: dict[str, dict[str, str]] = {
        "reject": {"reasonCode": "", "reason": ""},
        "reply": _reply_fields(row),
        "edit": _edit_fields(row),
        "delete": {"reason": ""},
    }
    return visit.page(
        "review.html",
        row=row,
        reasons=list(ReasonCode),
        sent=sent,
        fields={name: shown_again(form if name == sent else None, stored) for name, stored in forms.items()},
        loaded={name: json.dumps(stored) for name, stored in forms.items()},
        refused=refused,
        **await _context(visit, row),
    )


def _reply_fields(row: Mapping[str, Any]) -> dict[str, str]:
    reply = row["reply"] or {}
    return {"text": (reply.get("text") or "").replace("\r\n", "\n"), "author": reply.get("author") or ""}


def _edit_fields(row: Mapping[str, Any]) -> dict[str, str]:
    in_lines = {name: in_one_line(row[name]) for name in ("title", "userName")}
    return {**in_lines, "review": row["review"].replace("\r\n", "\n"), "rating": str(row["rating"])}


async def _context(visit: Visit, row: dict[str, Any]) -> dict[str, Any]:
    """The context of a review: None for parts that the visitor may not see or that don't exist. `away` names the parts
    that are unavailable at the moment."""
    facade, id = visit.facade, segment(row["id"])
    user = row["userId"]
    bought = {"customerId": user, "entityType": row["entityType"], "entityId": row["entityId"], "take": _OTHERS}
    others = {"userId": user, "take": _OTHERS + 1, "withTotal": False}
    asked: dict[str, Awaitable[Any]] = {"impact": facade.ask("GET", f"/api/customerReviews/{id}/impact")}
    if row["flags"]:
        asked["flags"] = facade.ask("GET", f"/api/customerReviews/{id}/flags")
    if visit.may(Permission.READ_AUDIT):
        asked["history"] = facade.ask("GET", "/api/audit", query={"reviewId": row["id"], "take": _HISTORY})
    if user and visit.may(Permission.READ_RETURNS):
        asked["orders"] = facade.ask("POST", "/api/orders/search", bought)
    if user:
        asked["others"] = facade.ask("POST", "/api/customerReviews/reviewList", others)
    if row["reports"] and visit.may(Permission.MODERATE_REVIEWS):
        asked["reports"] = facade.ask("GET", f"/api/customerReviews/{id}/reports", query={"take": _REPORTS})
    answers = dict(zip(asked, await asyncio.gather(*map(_or_refusal, asked.values())), strict=True))
    found = {name: None if isinstance(answers.get(name), Refused) else answers.get(name) for name in _PARTS}
    away = [name for name, each in answers.items() if isinstance(each, Refused) and each.status == 503]
    if found["others"] is not None:
        found["others"] = [each for each in found["others"]["results"] if each["id"] != row["id"]][:_OTHERS]
    flags = found["flags"] or {"results": [{"flag": flag, "found": [], "duplicateOf": None} for flag in row["flags"]]}
    found["flags"] = flags["results"]
    return {**found, "away": [_PARTS[name] for name in away]}


def _new_text(form: Form, name: str, row: Mapping[str, Any]) -> str | None:
    """The text in a field, empty to remove the stored one; None if it is unchanged."""
    if name not in form:
        return None
    text, before = form[name], (row[name] or "").replace("\r\n", "\n")
    return None if text == (before if name == "review" else in_one_line(before)) else text


def _new_rating(form: Form, row: Mapping[str, Any]) -> float | str | None:
    """The rating in its field; None if it is unchanged. A blank one is sent as it is, and refused: omitted, it would
    stay."""
    typed = form.get("rating", "")
    rating = typed if (value := number(typed)) is None else value
    return None if rating == row["rating"] else rating


async def _or_refusal(answer: Awaitable[Any]) -> Any:
    """The answer, or its refusal (403, 404 or 503): the page does without this part. Raises Refused: any other."""
    try:
        return await answer
    except Refused as refused:
        if refused.status not in (403, 404, 503):
            raise
        return refused
