"""Refused forms of the console: their content is shown again, and no input breaks a page."""

import asyncio
import re
import tracemalloc
from collections.abc import AsyncIterator
from threading import get_ident
from typing import Any, cast
from urllib.parse import quote, unquote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_multipart.multipart import parse_options_header
from starlette.requests import Request
from starlette.types import Message

from api.auth.authentication import Nobody
from api.web import middleware
from api.web.budgets import Budget, NoRoomError, Share
from api.web.forms import MAX_FORM_BYTES, read_form
from api.web.limits import RateLimit
from api.web.problems import ProblemError
from api.web.uploads import MAX_BODY_BYTES
from console import access
from console.api_client import ApiClient, Refused
from console.app import add_console
from console.fields import place_in_words
from console.visits import Visit
from domain.permissions import STRANGER, Caller, Permission
from tests.support.app import app_without_servers, client_of
from tests.support.console_pages import forms, text_of
from tests.support.faked_interface import EVERYTHING, ROW, faked, get_page, post_form
from tests.support.guarded import HeaderDoor, OpenDoor

HOSTILE = '"><script>alert(1)</script>\n'
URLENCODED, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
AGAIN = "Send it again"
TO_THE_START = ">Home</a>"


def form_of(page: httpx.Response) -> dict[str, str]:
    (form,) = [each for each in forms(page.text) if each.action.startswith("/console/reviews/")]
    return {"action": form.action, **form.fields}


@pytest.fixture
async def guarded() -> AsyncIterator[httpx.AsyncClient]:
    """A console that requires credentials and accepts none."""
    async with app_without_servers() as app, client_of(app) as http:
        add_console(app, HeaderDoor())
        yield http


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """A console without credentials."""
    async with app_without_servers() as app, client_of(app) as http:
        add_console(app, OpenDoor())
        yield http


async def test_form_is_shown_again_after_sign_out(guarded: httpx.AsyncClient) -> None:
    typed = {"key": "k-1", "text": HOSTILE, "author": "Shop"}
    page = await guarded.post("/console/reviews/a%2Fb/reply?x=1", data=typed, headers={"sec-fetch-site": "same-origin"})
    assert page.status_code == 401
    assert "nothing that you typed is lost" in page.text
    assert HOSTILE.strip() not in page.text
    assert form_of(page) == {"action": "/console/reviews/a%2Fb/reply?x=1", **typed}


@pytest.mark.parametrize("headers", [{}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}])
async def test_cross_site_form_is_not_shown_again(guarded: httpx.AsyncClient, headers: dict[str, str]) -> None:
    """One click would send it with the visitor's cookie."""
    answer = await guarded.post("/console/reviews/1/delete", data={"reason": "evil"}, headers=headers)
    assert (answer.status_code, answer.headers.get("location")) in ((303, "/console/sign-in"), (403, None))
    assert "evil" not in answer.text


async def test_too_large_form_redirects_to_sign_in(guarded: httpx.AsyncClient) -> None:
    headers = {"sec-fetch-site": "same-origin"}
    answer = await guarded.post("/console/reviews/1/reply", data={"text": "x" * 300_000}, headers=headers)
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/sign-in?done=ended")


@pytest.fixture
def reserved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each share that requests take."""

    async def noted(budget: Budget, size: int, *, has_begun: bool = False) -> Share:
        sizes.append(size)
        return await take(budget, size, has_begun=has_begun)

    take, sizes = Budget.take, list[int]()
    monkeypatch.setattr(Budget, "take", noted)
    return sizes


@pytest.mark.parametrize("is_announced", [True, False])
async def test_signed_out_visitors_reserve_little_memory(
    guarded: httpx.AsyncClient, reserved: list[int], is_announced: bool
) -> None:
    """Otherwise a few strangers, who announce large forms and send them slowly, keep uploads of others out."""

    async def parts() -> AsyncIterator[bytes]:
        yield content

    content = b"text=" + b"x" * 8_000_000
    headers = {"content-type": URLENCODED, "sec-fetch-site": "same-origin"}
    sent = content if is_announced else parts()
    answer = await guarded.post("/console/reviews/1/reply", content=sent, headers=headers)
    assert answer.status_code == 303
    assert max(reserved, default=0) <= 256 * 1024


async def test_visitors_unknown_during_an_outage_reserve_little_memory(
    guarded: httpx.AsyncClient, reserved: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody can send a cookie that can't be opened without MongoDB."""

    async def unknown(_: HeaderDoor, __: Request) -> str | None:
        raise Refused(503, {"detail": "MongoDB can't be reached"})

    monkeypatch.setattr(HeaderDoor, "credential", unknown)
    headers = {"content-type": URLENCODED, "sec-fetch-site": "same-origin"}
    answer = await guarded.post("/console/reviews/1/reply", content=b"text=" + b"x" * 8_000_000, headers=headers)
    assert answer.status_code == 503
    assert max(reserved, default=0) <= 256 * 1024
    small = await guarded.post("/console/reviews/1/reply", content=b"text=word", headers=headers)
    assert (small.status_code, form_of(small)["text"]) == (503, "word")


@pytest.mark.parametrize(
    ("path", "type", "most"),
    [("/api/images", "image/jpeg", MAX_BODY_BYTES), ("/console/templates/a", URLENCODED, MAX_FORM_BYTES)],
)
async def test_larger_bodies_reserve_what_they_announce(
    http: httpx.AsyncClient, reserved: list[int], path: str, type: str, most: int
) -> None:
    headers = {"content-type": type, "sec-fetch-site": "same-origin"}
    await http.post(path, content=b"x" * most, headers=headers)
    assert most in reserved


async def test_ended_session_is_reported(guarded: httpx.AsyncClient) -> None:
    """Only to visitors from a page of the console, not to new ones."""
    for site, path, ended in (("same-origin", "/queue", True), ("none", "/queue", False), ("same-origin", "", False)):
        answer = await guarded.get(f"/console{path}", headers={"sec-fetch-site": site})
        params = httpx.URL(answer.headers["location"]).params
        assert (params["to"], params.get("done")) == (f"/console{path}", "ended" if ended else None)


PREVIEW = "/console/templates/OrderReviewRequest/preview"


async def test_refused_preview_is_shown_in_its_frame(http: httpx.AsyncClient, guarded: httpx.AsyncClient) -> None:
    """When signed out and during outages: the frame of a page that forbids framing would stay blank."""
    framed = {"sec-fetch-site": "same-origin", "sec-fetch-dest": "iframe"}
    typed = {"subject": "Hi", "html": "<p>Hi</p>", "text": "Hi", "step": "html"}
    answers = [(401, "You are signed out.", await guarded.post(PREVIEW, data=typed, headers=framed))]
    answers.append((503, "The database can't be reached", await http.post(PREVIEW, data=typed)))
    answers.append((503, "The database can't be reached", await http.get(PREVIEW)))
    for status, expected, page in answers:
        assert (page.status_code, expected in text_of(page.text)) == (status, True), page.text
        assert ("retry-after" in page.headers) is (status == 503)
        policy = page.headers["content-security-policy"].split("; ")
        assert {"frame-ancestors 'self'", "sandbox", "default-src 'none'"} <= {*policy}
        assert not re.search("<form|<nav|<script", page.text)


async def test_form_is_shown_again_during_an_outage(http: httpx.AsyncClient) -> None:
    typed = {"key": "k-2", "text": "Thank you", "author": ""}
    page = await http.post("/console/reviews/1/reply", data=typed)
    assert page.status_code == 503
    assert "this page keeps what you typed" in text_of(page.text)
    assert form_of(page) == {"action": "/console/reviews/1/reply", **typed}
    assert AGAIN not in (await http.get("/console/reviews/1")).text


class Stuck(OpenDoor, Nobody):
    """Hangs, as PyMongo may when its server goes away: the look-up of the session, or that of its owner."""

    def __init__(self, hangs_in: str) -> None:
        self.hangs_in = hangs_in

    async def credential(self, request: Request) -> None:
        if self.hangs_in == "session":
            await asyncio.Event().wait()

    async def caller(self, credential: str | None) -> Caller:
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize("step", ["session", "owner"])
async def test_form_is_shown_again_if_its_visitor_cannot_be_identified(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 2 * access._CHECK_LIMIT_S < middleware._ANSWER_S
    monkeypatch.setattr(access, "_CHECK_LIMIT_S", 0.01)
    monkeypatch.setattr(middleware, "_ANSWER_S", 10)
    stuck, typed = Stuck(step), {"key": "k-2", "text": "Thank you", "author": ""}
    async with app_without_servers(authenticator=stuck) as app, client_of(app) as http, asyncio.timeout(60):
        add_console(app, stuck)
        page = await http.post("/console/reviews/1/reply", data=typed)
    assert (page.status_code, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert form_of(page) == {"action": "/console/reviews/1/reply", **typed}


async def test_page_that_an_outage_kept_away_can_be_tried_again(http: httpx.AsyncClient) -> None:
    """With its filters, which the link to its list lacks."""
    page = await http.get("/console/reviews?q=a+b&status=New")
    assert page.status_code == 503
    assert '<a class="button main" href="/console/reviews?q=a+b&amp;status=New">Try again</a>' in page.text
    assert "Try again<" not in (await http.get("/console/nowhere")).text


@pytest.mark.parametrize("quantity", ["9" * 5_000, "²", "1e400", "nan", "-1"])
async def test_invalid_quantities_do_not_break_a_page(http: httpx.AsyncClient, quantity: str) -> None:
    form = {"orderId": "1", "line": "a", "own": "", "quantity": quantity, "reason": ""}
    assert (await http.post("/console/returns/new", data=form)).status_code == 503  # MongoDB is unavailable


@pytest.mark.parametrize("key", ["ü", "\u202e", "\r\nx: y", "\0"])
async def test_invalid_form_keys_do_not_break_a_page(http: httpx.AsyncClient, key: str) -> None:
    form = {"action": "approve", "expected": "New", "key": key}
    # MongoDB is unavailable.
    assert (await http.post("/console/reviews/1/decide", data=form)).status_code == 503


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/console/queue/claims", {"id": "\u00e9" * 20_000}),
        ("/console/reviews/1/decide", {"action": "reject", "reasonCode": "a" * 70_000}),
    ],
    ids=["in a path", "in a query"],
)
async def test_too_long_values_are_refused(http: httpx.AsyncClient, path: str, fields: dict[str, str]) -> None:
    page = await http.post(path, data=fields)
    assert page.status_code == 422
    assert "too long" in text_of(page.text)


@pytest.mark.parametrize("path", ["/console/queue", "/console/queue/all"])
async def test_unknown_filter_is_refused(http: httpx.AsyncClient, path: str) -> None:
    page = await http.get(path, params={"only": "flaged"})
    assert page.status_code == 422
    assert "There is no filter flaged. Use one of: flagged, reported" in page.text
    decided = await http.post(path, params={"only": "flaged"}, data={"action": "approve"})
    assert decided.status_code in (405, 422)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/console/queue?order=latest", "There is no sort order latest. Use one of: oldest, newest."),
        ("/console/queue/all?order=latest", "There is no sort order latest. Use one of: oldest, newest."),
        ("/console/returns?sort=createdDate", "There is no sort order createdDate. Use one of: oldest, newest."),
        ("/console/reviews?photos=new", "There is no choice of photos new. Use one of: unseen."),
        ("/console/audit/export?format=xlsx", "There is no format xlsx. Use one of: csv, jsonl."),
        ("/console/audit?after=two", "two is not a number of entries."),
    ],
)
async def test_unknown_parameter_values_are_refused(path: str, expected: str) -> None:
    page = await get_page(path, {})
    assert (page.status_code, expected in page.text) == (422, True), page.text
    # Screen readers read the title first.
    assert "<title>Error: " in page.text


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("reviews/1/delete", {}),
        ("reviews/1/edit", {"title": "Better", "rating": "4"}),
        ("reviews/1/reply", {"text": "Thanks"}),
        ("reviews/1/reply", {"action": "remove"}),
        ("reviews/1/images/2", {"action": "hide"}),
        ("returns/1/delete", {}),
    ],
)
async def test_pending_command_is_reported_as_accepted(path: str, form: dict[str, str]) -> None:
    taken = (202, {"commandId": "c", "ids": ["1"], "outcome": "accepted"})
    paths = ("customerReviews", "customerReviews/1/reply", "customerReviews/1/images/2/hide", "return")
    answers: dict[str, Any] = {"customerReviews/1": (200, {**ROW, "id": "1"}), **dict.fromkeys(paths, taken)}
    answer = await post_form(f"/console/{path}", form, answers)
    location = httpx.URL(answer.headers.get("location", ""))
    assert (answer.status_code, location.params.get("done")) == (303, "accepted"), answer.text


async def test_unexpected_error_is_shown_as_a_page() -> None:
    """Here by an API response of the wrong shape."""
    odd: dict[str, Any] = {"customerReviews/search": (200, {})}
    async with client_of(faked(EVERYTHING, odd)) as http:
        page = await http.get("/console/queue")
        assert page.status_code == 500
        assert "The log of the service has the cause." in text_of(page.text)
        asked = await http.get("/console/queue", headers={"accept": "application/json"})
        assert asked.json()["status"] == 500


@pytest.mark.parametrize("count", [12, 13])
async def test_reminders_can_be_filtered_by_store(count: int) -> None:
    preview = {"results": [], "enabled": True, "nextRuns": [], "cron": "0 9 * * *", "cronInWords": "Daily"}
    stores = [{"id": f"shop {number}", "name": None} for number in range(count)]
    answers = {"reminders/preview": (200, preview), "stores": (200, stores)}
    page = (await get_page("/console/reminders", answers, store=f"shop {count - 1}")).text
    are_few = count == 12
    assert are_few == all(f">shop {number}<" in page for number in range(count))
    assert (f'aria-current="true">shop {count - 1}<' in page, "Remove the filter" in page) == (are_few, not are_few)
    page = (await get_page("/console/reminders", answers)).text
    assert ("/console/choose-store/reminders" in page) is not are_few


async def test_own_stores_are_chosen_by_page_without_reading_stores() -> None:
    stores = [f"shop-{number:02}" for number in range(60)]
    app = faked([Permission.READ_REVIEWS.value], {}, stores=stores)
    async with client_of(app) as http:
        pages = [
            (await http.get("/console/choose-store/reviews", params=query)).text
            for query in ({}, {"after": "shop-49"}, {"named": "SHOP-5"}, {"named": "shop-x"})
        ]
    assert [re.findall(r"store=(shop-\d\d)", page) for page in pages] == [stores[:50], stores[50:], stores[50:], []]
    assert ["after=shop-49" in page for page in pages] == [True, False, False, False]
    assert "No store matches" in pages[3]


PREVIEWED: dict[str, Any] = {
    **dict.fromkeys(("number", "storeId", "storeName", "customerId", "dueDate"), None),
    **{"orderId": "o", "statusDate": "2026-11-25T00:00:00.000Z", "remindersSent": 0, "products": []},
}


@pytest.mark.parametrize(
    ("query", "decisions", "expected", "unexpected"),
    [
        ("order=o", ["customer-limit"], "This order", " due"),
        ("order=o&store=a", [], "No order with this id is known in this store.", " due"),
        ("order=o", [], "No order with this id is known, in the stores that you may see.", " due"),
        ("", ["remind", "customer-limit"], "1 order is due", "At least"),
        ("", ["remind"] * 50, "At least 50 orders are due.", "latest orders"),
        ("", ["remind"] * 1 + ["customer-limit"] * 49, "At least 1 order is due.", "This order"),
        ("", ["remind"] * 2 + ["not-yet"] * 50, "2 orders are due", "At least"),
        ("", ["remind"] * 2 + ["reviews-disabled", "no-sender", "over"] * 20, "2 orders are due", "At least"),
    ],
)
async def test_reminders_give_a_lower_bound_of_due_orders(
    query: str, decisions: list[str], expected: str, unexpected: str
) -> None:
    """One order's page has no total, and a partial list gives a lower bound."""
    preview = {"enabled": True, "nextRuns": [], "cron": "0 9 * * *", "cronInWords": "Daily"}
    rows = [{**PREVIEWED, "decision": decision} for decision in decisions]
    answers = {"reminders/preview": (200, {**preview, "results": rows}), "stores": (200, [])}
    page = text_of((await get_page(f"/console/reminders?{query}", answers)).text)
    assert (expected in page, unexpected in page) == (True, False), page


@pytest.mark.parametrize(("status", "is_reported"), [(200, False), (503, True)])
async def test_unavailable_part_is_reported_and_not_shown_as_empty(status: int, *, is_reported: bool) -> None:
    permissions = [Permission.READ_REVIEWS.value, Permission.READ_AUDIT.value]
    answers = {
        "customerReviews/r": (200, ROW),
        "customerReviews/reviewList": (status, {"results": []}),
        "audit": (200, {"totalCount": 0, "results": []}),
    }
    words = text_of((await get_page("/console/reviews/r", answers, permissions)).text)
    assert ("Not available at the moment: the author's other reviews" in words) is is_reported
    assert ("No other review" in words) is not is_reported


async def test_review_readers_see_the_impact_of_an_approval() -> None:
    """As in the API, the permission to read ratings isn't needed."""
    change = {"now": {"value": 4.5, "reviewCount": 2}, "ifApproved": {"value": 4.0, "reviewCount": 3}}
    answers = {
        "customerReviews/r": (200, ROW),
        "customerReviews/reviewList": (200, {"results": []}),
        "customerReviews/r/impact": (200, change),
    }
    assert "If approved" in text_of((await get_page("/console/reviews/r", answers, [Permission.READ_REVIEWS])).text)


async def test_reused_form_key_is_explained() -> None:
    reused = {"type": "/problems/idempotency-key-reused", "title": "Reused", "detail": "This Idempotency-Key was used"}
    answers = {"customerReviews/r/reply": (422, reused), "customerReviews/r": (200, ROW)}
    page = await post_form("/console/reviews/r/reply", {"text": "Thank you", "author": "Shop", "key": "k-1"}, answers)
    assert "This form was already sent with other content" in text_of(page.text)
    assert "Idempotency-Key" not in page.text


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"outcome": "refused", "reason": "other-store"}, "r refused: other-store"),
        ({"outcome": "refused", "reason": "other-store", "message": "Of another"}, "r refused: Of another"),
        ({"outcome": "refused"}, "r refused"),
    ],
)
async def test_refusal_of_each_item_is_shown(result: dict[str, str], expected: str) -> None:
    problem = {"type": "/problems/not-applied", "title": "Nothing", "results": [{"id": "r", **result}]}
    answers = {"customerReviews": (409, problem), "customerReviews/r": (200, ROW)}
    page = await post_form("/console/reviews/r/delete", {"key": "k-1"}, answers)
    assert (page.status_code, expected in text_of(page.text)) == (409, True), text_of(page.text)


@pytest.mark.parametrize("status", [403, 409, 413, 422])
@pytest.mark.parametrize("action", ["decide", "delete"])
async def test_note_of_a_refused_decision_is_shown_again(status: int, action: str) -> None:
    """The page is that of the review, with the reason for the refusal."""
    error = {"pointer": "/reason", "code": "string-too-long", "message": "At most 500 characters"}
    problem = {"detail": "Not that way.", "errors": [error]}
    answers = {
        "customerReviews/r": (200, ROW),
        "customerReviews/reviewList": (200, {"results": []}),
        "customerReviews/reject": (status, problem),
        "customerReviews": (status, problem),
    }
    typed = {"key": "k-1", "action": "reject", "reasonCode": "spam", "reason": HOSTILE.strip()}
    page = await post_form(f"/console/reviews/r/{action}", typed, answers)
    assert page.status_code == status
    assert "Not that way." in text_of(page.text)
    assert f"{'Note' if action == 'decide' else 'Reason'} : At most 500 characters" in text_of(page.text)
    (form,) = [each for each in forms(page.text) if each.action.endswith(action) and "reason" in each.fields]
    assert form.fields["reason"] == HOSTILE.strip()
    assert form.fields["key"] != "k-1"


async def test_truncated_lists_say_so() -> None:
    """Reports and history of a review are truncated; a link leads to the rest of the history."""
    report = {"at": ROW["createdDate"], "reason": "spam", "explanation": None, "name": None, "email": None}
    reports = [{**report, "settled": number == 0} for number in range(100)]
    entry = {"at": ROW["createdDate"], "action": "edit", **dict.fromkeys(("subject", "reasonCode", "reason"))}
    answers = {
        "customerReviews/r": (200, {**ROW, "reports": 120}),
        "customerReviews/r/reports": (200, {"totalCount": 130, "results": reports}),
        "customerReviews/r/impact": (404, {}),
        "customerReviews/reviewList": (200, {"results": []}),
        "orders/search": (200, {"results": []}),
        "audit": (200, {"totalCount": 25, "results": [entry] * 20}),
    }
    page = (await get_page("/console/reviews/r", answers)).text
    assert "And 21 more." in text_of(page)
    assert '<a href="/console/audit?review=r">5 earlier entries</a>' in page


@pytest.mark.parametrize(
    ("outcomes", "title", "expected"),
    [
        (["applied", "unchanged"], "Decided", "Each review that was still unchanged has been decided."),
        (["applied"], "Decided", "1 approved"),
        (
            ["applied", "status-changed"],
            "Decided",
            "has been decided. Decisions that somebody else has made in the meantime stand.",
        ),
        ([], "Accepted", "Each review that is still unchanged will be decided in a moment."),
        (["status-changed"], "Nothing was decided", "Decisions that somebody else has made in the meantime stand."),
        (["text-changed"], "Nothing was decided", "Reviews that were changed in the meantime are skipped"),
        (["not-found"], "Nothing was decided", "1 not found"),
    ],
)
async def test_bulk_decision_reports_its_outcomes(outcomes: list[str], title: str, expected: str) -> None:
    """Without outcomes, the decisions were accepted and are still to be applied."""
    ids = [str(number) for number, _ in enumerate(outcomes or ["accepted"])]
    results = [{"id": id, "outcome": outcome} for id, outcome in zip(ids, outcomes, strict=False)]
    response = {"commandId": "c", "ids": ids, "outcome": "applied" if outcomes else "accepted", "results": results}
    shown = [{**ROW, "id": id} for id in ids]
    answers = {"customerReviews/approve": (200, response), "customerReviews/search": (200, {"results": shown})}
    marks = {f"seen-{id}": "another" for id in ids if outcomes == ["text-changed"]}
    async with client_of(faked(EVERYTHING, answers), follow_redirects=True) as http:
        page = await http.post("/console/queue/bulk", data={"action": "approve", "ids": ids, **marks})
    assert page.request.method == "GET"
    words = text_of(page.text)
    assert (f"<h1>{title}</h1>" in page.text, expected in words) == (True, True), words
    assert ("has been decided" in words) is (title == "Decided")


async def test_reloaded_bulk_step_decides_nothing() -> None:
    """Its idempotency key is used up. A button continues with the same decision and counts."""
    reused = {"type": "/problems/idempotency-key-reused", "title": "Reused", "detail": "The key was used"}
    left = {"totalCount": 7, "results": [{**ROW, "id": "left"}]}
    answers = {
        "customerReviews/reviewList": (200, left),
        "customerReviews/search": (200, left),
        "customerReviews/reject": (422, reused),
    }
    sent = {"action": "reject", "reasonCode": "spam"}
    for counts in ({}, {"n-applied": "500"}):
        page = await post_form("/console/queue/all", {**sent, **counts, "key": "k-1"}, answers)
        assert page.status_code == 200, page.text
        assert "7 wait" in text_of(page.text)
        assert 'id="continue"' not in page.text
        assert ">Continue</button>" in page.text
        (form,) = [each.fields for each in forms(page.text) if each.action.startswith("/console/queue/all")]
        assert form.pop("key") != "k-1"
        assert form == {**sent, **counts}


async def test_links_to_forbidden_screens_are_omitted() -> None:
    """Moderators without the permission to read reviews get no queue; links to forbidden screens become plain text."""
    answers = {"customerReviews/r": (200, ROW), "customerReviews/reviewList": (200, {"results": []})}
    entry: dict[str, Any] = {
        **dict.fromkeys(("subject", "reasonCode", "reason", "storeId"), None),
        "fields": [],
        "action": "approve",
    }
    entries = [{**entry, "at": ROW["createdDate"], "kind": "review", "reviewId": "r", "entityId": "camera"}]
    answers["audit"] = (200, {"totalCount": 1, "results": entries})
    start = await get_page("/console", answers, [Permission.MODERATE_REVIEWS])
    assert (start.status_code, 'href="/console/queue"' in start.text) == (403, False)
    for permission, path, link in (
        (Permission.READ_AUDIT, "/console/audit", "/console/reviews/r"),
        (Permission.READ_REVIEWS, "/console/reviews/r", "/console/objects/Product/1"),
    ):
        for held, is_there in (([permission], False), (EVERYTHING, True)):
            page = await get_page(path, answers, held)
            assert (f'href="{link}"' in page.text) is is_there, (path, held)


@pytest.mark.parametrize("bound", [None, ["a"], ["a", "b"]])
async def test_forbidden_actions_are_not_offered(bound: list[str] | None) -> None:
    """A caller bound to stores can change only their mails, and can't register others."""
    settings: dict[str, Any] = {
        **dict.fromkeys(("reviewsEnabled", "purchaseRequired", "anonymousReviewsAllowed")),
        "moderationRules": [],
    }
    store: dict[str, Any] = {"id": "a", "name": None, "languages": [], "settings": settings}
    mail = {"name": "M", "source": "saved", "languageCode": None, **dict.fromkeys(("subject", "html", "text"), "Hi")}
    answers: dict[str, Any] = {
        "stores": (200, [store]),
        "notificationTemplates/M": lambda asked: (200, {**mail, "storeId": asked.query.get("storeId")}),
    }
    async with client_of(faked(EVERYTHING, answers, stores=bound)) as http:
        registers = "Register a store" in (await http.get("/console/stores")).text
        assert registers is (bound != ["a"])
        for place, may in (("", bound is None), ("?store=a", True), ("?store=c", bound is None)):
            page = (await http.get(f"/console/templates/M{place}")).text
            assert (">Save for " in page, "Remove this template" in page) == (may, may), place


@pytest.mark.parametrize("dots", [".", ".."])
async def test_id_of_dots_is_not_found(dots: str) -> None:
    """The path must not resolve to the list of stores."""
    answers: dict[str, Any] = {"stores/": (200, []), "stores": (200, []), "": (200, {}), "settings": (200, {})}
    page = await get_page(f"/console/stores/{dots.replace('.', '%2E')}/rules", answers, [Permission.READ_SETTINGS])
    assert page.status_code == 404


@pytest.mark.parametrize(
    ("pointer", "words"),
    [
        ("/0/rating", "Rating, 1 to 5"),
        ("/settings/storefrontOrigins/1", "Web pages, item 2"),
        ("/reminder/maxAgeDays", "Reminder, max age days"),
        ("/lineItems/0/quantity", "Line items 1, quantity"),
        ("/a~1b", "A/b"),
        ("/9", ""),
        ("", ""),
    ],
)
def test_places_are_described_in_words(pointer: str, words: str) -> None:
    labels = {"rating": "Rating, 1 to 5", "settings.storefrontOrigins": "Web pages"}
    assert place_in_words(pointer, labels) == words


def test_long_and_non_ascii_places_are_described() -> None:
    assert place_in_words(f"/words/{'9' * 5_000}").startswith("Words ")
    assert quote(place_in_words("/ü")) == "%C3%9C"


async def test_refusal_links_back_to_its_screen() -> None:
    """Not to the start page, from which the visitor would have to navigate again."""
    letters, nobody = [p.value for p in (Permission.READ_DEAD_LETTERS, Permission.REPLAY_DEAD_LETTERS)], list[str]()
    async with client_of(faked(letters, {})) as http:
        page = await http.post("/console/dead-letters", data={"action": "try"})
        assert (page.status_code, "No letter is selected" in page.text) == (422, True)
        assert ('href="/console/dead-letters">To Dead letters</a>' in page.text, TO_THE_START in page.text) == (
            True,
            False,
        )
    async with client_of(faked(nobody, {})) as http:
        page = await http.post("/console/dead-letters", data={"action": "try"})
        assert (page.status_code, TO_THE_START in page.text) == (403, True)


@pytest.mark.parametrize(("size", "is_in_thread"), [(100, False), (20_000, True)])
async def test_large_form_is_decoded_in_a_thread(
    guarded: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, size: int, is_in_thread: bool
) -> None:
    def parsed(kind: str | None) -> tuple[bytes, dict[bytes, bytes]]:
        threads.append(get_ident())
        return parse_options_header(kind)

    threads: list[int] = []
    monkeypatch.setattr("api.web.forms.parse_options_header", parsed)
    typed = {"key": "k-1", "text": "%" * size, "author": "Shop"}
    page = await guarded.post("/console/reviews/1/reply", data=typed, headers={"sec-fetch-site": "same-origin"})
    assert form_of(page) == {"action": "/console/reviews/1/reply", **typed}
    assert [thread != get_ident() for thread in threads] == [is_in_thread]


@pytest.mark.parametrize(("size", "is_kept"), [(200_000, True), (300_000, False)])
async def test_form_beyond_the_rate_is_kept_if_it_is_small(size: int, is_kept: bool) -> None:
    """Parsing a large one would be the work that the limit is to prevent."""
    async with app_without_servers(app={"rate_limit": RateLimit(0.001, 1)}) as app, client_of(app) as http:
        add_console(app, OpenDoor())
        await http.get("/console")
        page = await http.post("/console/reviews/r/reply", data={"key": "k", "text": "x" * size, "author": ""})
    assert (page.status_code, "x" * size in page.text) == (429, is_kept)


@pytest.mark.parametrize(("size", "is_kept"), [(200_000, True), (300_000, False)])
async def test_form_of_visitor_without_permission_is_kept_if_it_is_small(size: int, is_kept: bool) -> None:
    """The permission may have been taken away while the text was written, and may come back."""
    typed = {"key": "k-1", "text": "x" * size, "author": "Shop"}
    async with client_of(faked([], {})) as http:
        page = await http.post("/console/reviews/1/reply", data=typed)
    assert (page.status_code, "x" * size in page.text) == (403, is_kept)
    assert (AGAIN in page.text) is is_kept
    if is_kept:
        assert form_of(page) == {"action": "/console/reviews/1/reply", **typed}


FORM = {"type": "http", "method": "POST", "path": "/", "headers": [(b"content-type", URLENCODED.encode())]}
FILE = b'--b\r\nContent-Disposition: form-data; name="key"; filename="key.txt"\r\n\r\nk\r\n--b--\r\n'


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        (URLENCODED, b"&".join(b"field=1" for _ in range(2_001)), "Too many fields. Maximum number of fields is 2000."),
        (MULTIPART, FILE, "Too many files. Maximum number of files is 0."),
        ("multipart/form-data", FILE, "Missing boundary in multipart."),
        (MULTIPART, b"field=1", "Invalid multipart data."),
    ],
)
async def test_unreadable_form_is_refused(kind: str, content: bytes, expected: str) -> None:
    async with app_without_servers() as app, client_of(app) as http:
        add_console(app, OpenDoor())
        answer = await http.post("/console/reviews/1/reply", content=content, headers={"content-type": kind})
    assert answer.status_code == 400
    assert expected in text_of(answer.text)


def sent(content: bytes) -> Request:
    async def received() -> Message:
        return {"type": "http.request", "body": content}

    return Request(FORM, received)


@given(st.lists(st.sampled_from([*b"%%%&&==+4C3aAfzg;", 0xC3, 0xA4, 0xFF])).map(bytes) | st.binary())
async def test_urlencoded_form_is_read_as_by_starlette(content: bytes) -> None:
    found = await read_form(sent(content), len(content), 100)
    expected = await sent(content).form(max_fields=100)
    assert found == expected.multi_items()


@pytest.mark.parametrize("text", ["%" * 100_000, "%C3%A4" * 20_000])
async def test_form_of_percent_signs_takes_little_memory(text: str) -> None:
    """A list of the parts between them takes up to 190 times as much as the form."""
    content = f"text={text}".encode()
    request = sent(content)
    tracemalloc.start()
    try:
        form = await read_form(request, len(content), 10)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert form == [("text", unquote(text))]
    assert peak < 8 * len(content)


async def test_form_of_a_disconnected_client_is_refused() -> None:
    async def gone() -> Message:
        return {"type": "http.disconnect"}

    with pytest.raises(ProblemError, match="The connection ended before the form did"):
        await read_form(Request(FORM, gone), 1_000, 10)


async def test_failed_form_is_not_read_again() -> None:
    reads = 0

    async def crowded() -> Message:
        nonlocal reads
        reads += 1
        raise NoRoomError("Others have it.")

    request = Request(FORM, crowded)
    visit = Visit(request, cast(ApiClient, None), STRANGER, is_open=False)
    for _ in range(2):
        with pytest.raises(Refused, match="Others have it"):
            await visit.form()
    assert reads == 1
