"""A review in the console, without a browser: the details shown with it, and its forms."""

import re
from functools import partial
from typing import Any, Final

import httpx
import pytest

from tests.support.console_pages import forms
from tests.support.facade import Facade, new_id, submission
from tests.support.images import Images
from tests.support.orders import Returns
from tests.support.retries import resend_until_settled
from tests.support.service import Service
from tests.support.waiting import eventually

SAME = {"sec-fetch-site": "same-origin"}

TO_COME: Final = "take effect in a moment"
"""Text of a page whose decisions haven't taken effect yet, on a busy machine."""


async def send(http: httpx.AsyncClient, path: str, **form: Any) -> httpx.Response:
    """Send a form until its command has been decided; returns the answer."""
    return await resend_until_settled(partial(http.post, path, data={"key": new_id("key"), **form}, headers=SAME))


async def test_review_is_shown_with_its_context(returns: Returns, http: httpx.AsyncClient, facade: Facade) -> None:
    customer, product = new_id("anna"), new_id("camera")
    store = await facade.open_store()
    order = await returns.ordered({product: 1}, customerId=customer, storeId=store)
    first, second = await facade.submit(
        submission(product, 4, userId=customer, storeId=store),
        submission(new_id(), 2, userId=customer, title="Another one"),
    )
    await facade.moderate("reject", first)
    await facade.moderate("approve", first)

    async def page_of() -> str:
        return (await http.get(f"/console/reviews/{first}")).text

    page = await eventually(page_of, lambda page: f"/console/orders/{order}" in page)
    assert re.search(rf"/console/orders/{order}.*\s*<em[^>]*>verified purchase", page)
    assert f"/console/reviews/{second}" in page
    assert "Another one" in page
    assert re.findall(r"</time> (reject|approve)\b", page) == ["reject", "approve"]
    assert re.search(r"<dt>Now</dt><dd>4.00</dd>\s*<dd class=\"n\">1 review<", page)


@pytest.mark.long
async def test_review_forms(http: httpx.AsyncClient, facade: Facade) -> None:
    (id,) = await facade.submit(submission(new_id(), 4, title="Before"))
    path = f"/console/reviews/{id}"
    assert (
        await send(http, f"{path}/edit", review="Mended", title="", rating="3.5", userName="Ann")
    ).status_code == 303
    review = await facade.review(id)
    assert (review["review"], review["rating"], review["userName"], review["reviewStatus"]) == (
        "Mended",
        3.5,
        "Ann",
        "New",
    )
    assert review["title"] == ""  # emptying the title removes it
    assert (await send(http, f"{path}/reply", text="Thanks", author="Shop")).status_code == 303
    assert (await facade.review(id))["reply"]["author"] == "Shop"
    assert (await send(http, f"{path}/reply", action="remove")).status_code == 303
    assert (await facade.review(id))["reply"] is None
    refused = await send(http, f"{path}/reply", text=" ")
    assert refused.status_code == 422
    assert "<b>Text</b>: " in refused.text
    assert (await send(http, f"{path}/reply", text="ab\r\n" * 1_600)).status_code == 303  # the longest text allowed
    long = "typed " * 1_000
    refused = await send(http, f"{path}/reply", text=long, author="Bob")
    assert refused.status_code == 422
    (form,) = [each.fields for each in forms(refused.text) if each.action.endswith("/reply")]
    assert (form["text"], form["author"]) == (long, "Bob")
    # A browser would cut a longer text that is pasted, without a word.
    assert '<textarea name="text" required' in refused.text
    for rating in ("nan", "many", "", "9"):
        refused = await send(http, f"{path}/edit", review="Mended twice", rating=rating)
        assert refused.status_code in (400, 422)
        (form,) = [each.fields for each in forms(refused.text) if each.action.endswith("/edit")]
        assert (form["review"], form["rating"]) == ("Mended twice", rating)
    late = await send(http, f"{path}/decide", action="approve", expected="Rejected")
    assert late.status_code == 409
    assert "was faster: it is New" in late.text
    unknown = await send(http, f"{path}/decide", action="explode", expected="New")
    assert unknown.status_code == 422
    without_reason = await send(http, f"{path}/decide", action="reject", reasonCode="", expected="New")
    assert without_reason.status_code == 422
    assert "Choose a reason" in without_reason.text
    external = await send(
        http, f"{path}/decide", action="reject", reasonCode="fake", expected="New", back="https://evil.example/"
    )
    assert external.headers["location"].startswith(f"{path}?done=rejected")
    assert (await send(http, f"{path}/delete", back="/console/reviews")).status_code == 303
    assert (await http.get(path)).status_code == 404


async def test_edit_changes_only_changed_fields(http: httpx.AsyncClient, facade: Facade) -> None:
    """An edit by a moderator keeps the status, removes an emptied value, and keeps values that the browser merely
    returns."""
    (id,) = await facade.submit_approved(submission(new_id(), 4, title="Call 555-1234", review="One\nTwo"))
    here = f"/console/reviews/{id}"
    assert (
        await send(http, f"{here}/edit", review="One\r\nTwo", title="", rating="3", userName="Anna Berg")
    ).status_code == 303
    review = await eventually(lambda: facade.review(id), lambda review: review["rating"] == 3)
    assert (review["reviewStatus"], review["title"], review["review"], review["userName"]) == (
        "Approved",
        "",
        "One\nTwo",
        "Anna Berg",
    )
    (edited, *_) = (await facade.get("/api/audit", reviewId=id))["results"]
    assert (edited["action"], edited["fields"]) == ("edit", ["rating", "title"])
    await send(http, f"{here}/edit", review="Three\r\n", title="", rating="3", userName="")
    review = await eventually(lambda: facade.review(id), lambda review: review["userName"] == "")
    assert (review["review"], review["reviewStatus"]) == ("Three\n", "Approved")


async def test_line_breaks_dropped_by_browsers_are_kept(http: httpx.AsyncClient, facade: Facade) -> None:
    """For unchanged values: single-line fields have no line breaks."""
    (id,) = await facade.submit(submission(new_id(), 4, title="Two\nlines", userName="Anna\r\nBerg"))
    here = f"/console/reviews/{id}"
    typed = {"title": "Twolines", "userName": "AnnaBerg", "review": "Mended", "rating": "4"}
    before = await facade.review(id)
    assert (await send(http, f"{here}/edit", **typed)).status_code == 303
    after = await eventually(lambda: facade.review(id), lambda review: review["review"] == "Mended")
    assert [after[name] for name in ("title", "userName")] == [before[name] for name in ("title", "userName")]
    assert "\n" in after["title"]
    assert (await send(http, f"{here}/edit", **typed, key=new_id("key"))).headers["location"].endswith("done=saved")


async def test_ids_with_reserved_characters_are_linked(http: httpx.AsyncClient, facade: Facade) -> None:
    """An id with characters reserved in URLs links to its own review."""
    await facade.submit(submission(new_id(), 4, id=f"a?b=#%&{new_id()}", title="Odd"))
    listed = (await http.get("/console/reviews", params={"q": "Odd"})).text
    (address,) = re.findall(r'href="(/console/reviews/a%3Fb[^"]*)"', listed)
    assert ">Odd</h1>" in (await http.get(address)).text
    assert (await send(http, f"{address}/decide", action="approve", expected="New")).status_code == 303


async def test_repeated_form_decides_once(http: httpx.AsyncClient, facade: Facade) -> None:
    (id,) = await facade.submit(submission(new_id(), 4))
    form = {"action": "reject", "reasonCode": "spam", "expected": "New", "key": new_id("key")}
    for _ in range(2):
        assert (await send(http, f"/console/reviews/{id}/decide", **form)).status_code == 303
    history = await facade.get("/api/audit", reviewId=id)
    assert [each["action"] for each in history["results"]] == ["reject"]


async def test_batch_of_decisions_has_an_outcome_each(http: httpx.AsyncClient, facade: Facade) -> None:
    """Each has its own outcome, even if somebody else was faster with one of them, or with all."""
    ids = await facade.submit(*(submission(new_id(), 4) for _ in range(3)))
    await facade.moderate("reject", ids[1])

    async def decide(action: str, expected: str = "New") -> dict[str, str]:
        form = {"key": new_id("key"), "action": action, "expected": expected, "ids": ids}

        async def results() -> list[dict[str, str]]:
            answer = await send(http, "/console/queue/decisions", **form)
            assert answer.status_code == 200, answer.text
            return list(answer.json()["results"])

        # The list is empty while they haven't taken effect.
        found = await eventually(results, lambda results: len(results) == len(ids))
        return {each["id"]: each.get("reason", each["outcome"]) for each in found}

    one, taken, other = ids
    assert await decide("approve") == {one: "applied", taken: "status-changed", other: "applied"}
    assert await decide("reject") == dict.fromkeys(ids, "status-changed")
    for bad in ({"action": "explode"}, {"action": "approve", "expected": "odd"}, {"action": "approve"}):
        assert (await send(http, "/console/queue/decisions", **bad)).status_code == 422


async def test_links_to_all_results_decide_nothing(http: httpx.AsyncClient, facade: Facade) -> None:
    """A link decides nothing; only the answer to a decision continues by itself."""
    word = new_id("word")
    ids = await facade.submit(*(submission(new_id(), 4, title=word) for _ in range(2)))
    here = f"/console/queue/all?q={word}"
    for link in (f"{here}&action=approve&n-applied=1", f"{here}&n-x=%C2%B2"):
        page = await http.get(link)
        assert page.status_code == 200
        assert 'id="continue"' not in page.text
        assert "Approve all 2" in page.text
    carried = {"n-applied": "1", "n-odd": "²", "n-far": "9" * 5_000}
    answer = await send(http, here, action="approve", **carried)
    assert answer.status_code == 200
    assert "0 wait, 3 are done" in answer.text or TO_COME in answer.text

    async def statuses() -> list[str]:
        return [(await facade.review(id))["reviewStatus"] for id in ids]

    await eventually(statuses, lambda found: found == ["Approved"] * 2)
    again = await send(http, here, action="approve", **carried)
    assert 'id="continue"' not in again.text


async def test_repeated_step_of_all_results_decides_no_others(http: httpx.AsyncClient, facade: Facade) -> None:
    """For example when the page is reloaded."""
    word = new_id("word")
    form = {"action": "approve", "key": new_id("key")}
    (first,) = await facade.submit(submission(new_id(), 4, title=word))
    assert (await send(http, f"/console/queue/all?q={word}", **form)).status_code == 200
    await eventually(lambda: facade.review(first), lambda review: review["reviewStatus"] == "Approved")
    (other,) = await facade.submit(submission(new_id(), 4, title=word))
    again = await send(http, f"/console/queue/all?q={word}", **form)
    assert (again.status_code, "Reloading this page decides nothing" in again.text) == (200, True), again.text
    assert "Continue" in again.text
    assert (await facade.review(other))["reviewStatus"] == "New"


@pytest.mark.long
async def test_reported_reviews_are_listed_and_decided(http: httpx.AsyncClient, facade: Facade) -> None:
    """Reported reviews stay public until a moderator keeps or rejects them: one, the selected ones, or all."""
    word, complaint = new_id("word"), "It names my street, and " + "x" * 300
    ids = await facade.submit(*(submission(new_id(), 4, title=word) for _ in range(4)))
    await facade.moderate("approve", *ids)
    report = {"reason": "personal-data", "explanation": complaint, "email": "berta@example.org", "goodFaith": True}

    async def report_review(id: str) -> None:
        await facade.command("POST", f"/api/customerReviews/{id}/reports", report)

    async def listed() -> set[str]:
        page = await http.get("/console/queue", params={"only": "reported", "q": word})
        return set(re.findall(r'<li id="r-([^"]+)"', page.text))

    for id in ids:
        await report_review(id)
    assert await listed() == set(ids)
    assert "4 are reported" in (await http.get("/console/queue/state", params={"only": "reported", "q": word})).text
    filters = (await http.get("/console/queue/chips", params={"only": "reported", "q": word})).text
    assert re.findall(r">([^<>]+) <b>(\d+)</b>", filters) == [
        ("All", "0"), ("Flagged", "0"), ("Reported", "4"), ("With photos", "0"), ("1 or 2 stars", "0")
    ]  # fmt: skip
    one, kept, rejected, other = ids
    here = await http.get(f"/console/reviews/{one}")
    assert complaint in here.text
    assert "berta@example.org" in here.text
    answer = await send(http, f"/console/reviews/{one}/decide", action="approve", expected="Approved")
    assert answer.status_code == 303
    assert "set-cookie" not in answer.headers
    await eventually(listed, {kept, rejected, other}.__eq__)
    selected = {"ids": [rejected], f"status-{rejected}": "Approved", "action": "reject", "reasonCode": "personal-data"}
    answer = await send(http, "/console/queue/bulk", **selected)
    assert "n-applied=1" in answer.headers["location"]
    await eventually(listed, {kept, other}.__eq__)
    answer = await send(http, f"/console/queue/all?only=reported&q={word}", action="approve")
    assert "0 wait, 2 are done" in answer.text or TO_COME in answer.text
    await eventually(listed, set().__eq__)
    found = [await facade.review(id) for id in ids]
    assert [(each["reviewStatus"], each["reports"]) for each in found] == [
        ("Approved", 0), ("Approved", 0), ("Rejected", 0), ("Approved", 0)
    ]  # fmt: skip


@pytest.mark.long
async def test_deciding_all_stops_if_nothing_takes_effect(own_service: Service, own_facade: Facade) -> None:
    await own_facade.submit(submission(new_id(), 4))
    await own_service.stop("worker")
    answer = await send(own_facade.http, "/console/queue/all", action="approve")
    assert "take effect in a moment" in answer.text
    assert "Continue" in answer.text
    assert 'id="continue"' not in answer.text


async def test_note_belongs_to_rejection(http: httpx.AsyncClient, facade: Facade) -> None:
    """Enter in the note's field presses the first button of its form, which must be the one to reject."""
    (id,) = await facade.submit(submission(new_id(), 4))
    found = [each for each in forms((await http.get(f"/console/reviews/{id}")).text) if "/decide" in each.action]
    assert [[*each.buttons] for each in found if "reason" in each.fields] == [["reject"]]
    assert [[*each.buttons] for each in found if "reason" not in each.fields] == [["approve"]]


async def test_photos_are_shown(http: httpx.AsyncClient, facade: Facade) -> None:
    image = await Images(http).upload()
    (id,) = await facade.submit(submission(new_id(), 4, images=[image]))
    for path in (f"/console/reviews/{id}", f"/console/reviews/{id}/context"):
        sources = re.findall(rf'src="([^"]*{image}[^"]*)"', (await http.get(path)).text)
        assert sources
        for each in sources:
            photo = await http.get(each)
            assert (photo.status_code, photo.headers["content-type"]) == (200, "image/jpeg")
            assert photo.headers["cache-control"] == "no-store"


async def test_long_text_is_shown_in_full_beside_the_queue(http: httpx.AsyncClient, facade: Facade) -> None:
    (id,) = await facade.submit(submission(new_id(), 4, review=f"{'word ' * 200}and its end"))
    part = (await http.get(f"/console/reviews/{id}/context", headers={"hx-request": "true"})).text
    assert "and its end" in part
    assert f'data-id="{id}"' in part
