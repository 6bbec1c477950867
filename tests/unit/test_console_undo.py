"""Undo in the queue without JavaScript: only the visitor's own last decision, and only once."""

import json
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest

from console import visits
from console.content_hashes import hash_for_decision
from console.undo import COOKIE, RESTORING
from domain.moderation_rules_text import text_hash
from domain.reviews import ReviewStatus
from tests.support.app import client_of
from tests.support.console_pages import PageForm, forms, text_of
from tests.support.faked_interface import EVERYTHING, ROW, Asked, faked

DECIDE = "/console/reviews/r/decide"
DONE = (200, {"commandId": "c", "ids": ["r"], "outcome": "applied"})


def console(asked: list[Asked] | None = None) -> httpx.AsyncClient:
    """A client of a console with one waiting review, in which every decision takes effect."""
    decided = {f"customerReviews/{action}": DONE for action in RESTORING.values()}
    found: dict[str, Any] = {"customerReviews/search": (200, {"results": [ROW]}), **decided}
    return client_of(faked(EVERYTHING, found, asked), follow_redirects=True)


def decide_forms(page: httpx.Response) -> list[PageForm]:
    assert page.status_code == 200, page.text
    return [each for each in forms(page.text) if each.action == DECIDE]


async def test_undo_checks_the_seen_review_and_offers_no_redo() -> None:
    asked: list[Asked] = []
    async with console(asked) as http:
        (row,) = decide_forms(await http.get("/console/queue"))
        undo, _ = decide_forms(await http.post(DECIDE, data={**row.fields, "action": "approve"}))
        assert ([*undo.buttons], undo.fields["expected"]) == (["reset"], "Approved")
        assert undo.fields["seen"] == row.fields["seen"]
        (left,) = decide_forms(await http.post(DECIDE, data={**undo.fields, "action": "reset"}))
        assert "undoing" not in left.fields
        changed = {**undo.fields, "seen": "another", "action": "reset"}
        assert (await http.post(DECIDE, data=changed)).status_code == 409
    assert [each.query["expectedStatus"] for each in asked if each.path == "customerReviews/reset"] == ["Approved"]


@pytest.mark.parametrize("status", [each.label for each in ReviewStatus])
async def test_every_decision_is_confirmed(status: str) -> None:
    form = {"action": RESTORING[status], "reasonCode": "spam", "expected": "New", "seen": hash_for_decision(ROW)}
    async with console() as http:
        decided = await http.post(DECIDE, data=form, follow_redirects=False)
    (done,) = parse_qs(urlsplit(decided.headers["location"]).query)["done"]
    assert done in visits.DONE


@pytest.mark.parametrize("status", RESTORING)
async def test_page_of_a_review_offers_every_decision_that_changes_it(status: str) -> None:
    found = {"customerReviews/r": (200, {**ROW, "reviewStatus": status})}
    async with client_of(faked(EVERYTHING, found)) as http:
        offers = decide_forms(await http.get("/console/reviews/r"))
    assert {button for each in offers for button in each.buttons} == {*RESTORING.values()} - {RESTORING[status]}


@pytest.mark.parametrize("outcome", ["applied", "accepted"])
async def test_decision_is_reported_once(outcome: str) -> None:
    """By the offer of its undo, below the title. A confirmation above it says only what the offer doesn't."""
    decided = (200, {**DONE[1], "outcome": outcome})
    found = {"customerReviews/search": (200, {"results": [ROW]}), "customerReviews/reject": decided}
    form = {"action": "reject", "reasonCode": "spam", "expected": "New", "seen": hash_for_decision(ROW)}
    async with client_of(faked(EVERYTHING, found), follow_redirects=True) as http:
        page = (await http.post(DECIDE, data={**form, "back": "/console/queue"})).text
    title, _, words = text_of(page).partition(" · ")
    assert title == ("Rejected. Queue" if outcome == "applied" else "Accepted. It takes effect in a moment. Queue")
    assert words.count("Rejected") == 1
    assert ("Accepted. It takes effect in a moment." in words) is (outcome == "accepted")


@pytest.mark.parametrize("name", ["id", "expected", "seen", "reasonCode"])
async def test_cookie_with_lone_surrogates_offers_no_undo(name: str) -> None:
    """Other hosts of the domain may set it; it contains a lone surrogate."""
    undo = {"id": "r", "action": "reject", "expected": "New", "seen": "mark", "reasonCode": "fake", name: "\ud800"}
    async with console() as http:
        page = await http.get("/console/queue", headers={"cookie": f"{COOKIE}={quote(json.dumps(undo))}"})
        assert all("undoing" not in each.fields for each in decide_forms(page))


async def test_undone_reset_restores_the_reason_code() -> None:
    """A colleague's rejection that the visitor has reset with the console's script."""
    undo = {"id": "r", "action": "reject", "expected": "New", "seen": hash_for_decision(ROW), "reasonCode": "fake"}
    asked: list[Asked] = []
    async with console(asked) as http:
        page = await http.get("/console/queue", headers={"cookie": f"{COOKIE}={quote(json.dumps(undo))}"})
        form = next(each for each in decide_forms(page) if "undoing" in each.fields)
        await http.post(DECIDE, data={**form.fields, "action": "reject"})
    assert [each.query["reasonCode"] for each in asked if each.path == "customerReviews/reject"] == ["fake"]


async def test_cookie_without_seen_mark_offers_no_undo() -> None:
    """Other hosts of the same domain can set such a cookie."""
    undo = {"id": "r", "action": "approve", "expected": "New"}
    async with console() as http:
        page = await http.get("/console/queue", headers={"cookie": f"{COOKIE}={quote(json.dumps(undo))}"})
    assert not [form for form in decide_forms(page) if "undoing" in form.fields]


async def test_query_parameters_offer_no_undo() -> None:
    query = "done=approved&undo=r&undo_action=approve&undo_expected=New"
    async with console() as http:
        assert len(decide_forms(await http.get(f"/console/queue?{query}"))) == 1


@pytest.mark.parametrize(
    "odd",
    [
        *("", "x", "[]", "1", "[" * 3_000, '{"id": "r"}', '{"id": "r", "action": "delete"}'),
        '{"id": "r", "action": "approve", "expected": "Odd", "seen": "mark"}',
    ],
)
async def test_malformed_cookies_do_not_break_the_queue(odd: str) -> None:
    async with console() as http:
        page = await http.get("/console/queue", headers={"cookie": f"{COOKIE}={quote(odd)}"})
        assert len(decide_forms(page)) == 1


@pytest.mark.parametrize(
    ("moderator", "expected", "is_undone"),
    [("anna", "Approved", True), ("berta", "Approved", False), ("berta", "New", True), (None, "Approved", True)],
)
async def test_equal_decision_of_another_moderator_is_not_undone(
    moderator: str | None, expected: str, is_undone: bool
) -> None:
    """Neither by a form nor by the queue's script. Reviews with another status are refused by the API."""
    asked: list[Asked] = []
    row = {**ROW, "reviewStatus": "Approved", "moderator": moderator}
    found = {"customerReviews/search": (200, {"results": [row]}), "customerReviews/reset": DONE}
    form = {"ids": "r", "action": "reset", "expected": expected, "seen-r": hash_for_decision(row), "undoing": "1"}
    async with client_of(faked(EVERYTHING, found, asked)) as http:
        by_page = await http.post(DECIDE, data={**form, "seen": form["seen-r"]})
        by_script = (await http.post("/console/queue/decisions", data=form)).json()
        refusal = {"id": "r", "outcome": "refused", "reason": "status-changed"}
        refusal |= {"status": "Approved", "moderator": "berta"}
        assert by_script["results"] == ([] if is_undone else [refusal])
        assert by_page.status_code == (303 if is_undone else 409)
        assert ("berta was faster: it is Approved. Nothing was changed." in by_page.text) is not is_undone
        del form["undoing"]
        assert (await http.post("/console/queue/decisions", data=form)).json() == {"results": []}
    sent = [each for each in asked if each.path == "customerReviews/reset"]
    assert len(sent) == (3 if is_undone else 1)


async def test_decision_carries_the_hash_of_the_shown_text() -> None:
    """All forms do, even if the review can't be compared because the database is unavailable."""
    asked: list[Asked] = []
    away = {"customerReviews/search": (503, {"detail": "MongoDB is away"})}
    found = {**away, "customerReviews/approve": DONE, "customerReviews": DONE}
    form = {"ids": "r", "action": "approve", "expected": "New", "seen": hash_for_decision(ROW)}
    async with client_of(faked(EVERYTHING, found, asked)) as http:
        forms = {**form, "seen-r": form["seen"]}
        for path in (DECIDE, "/console/queue/decisions", "/console/queue/bulk", "/console/reviews/r/delete"):
            assert (await http.post(path, data=forms)).status_code in (200, 303), path
    bodies = [each.body for each in asked if each.path != "customerReviews/search"]
    assert bodies == [{"ids": ["r"], "textHashes": {"r": text_hash(ROW["title"], ROW["review"])}}] * 4
