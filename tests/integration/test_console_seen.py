"""Outdated console pages: forms carry the version that the page showed, so nobody decides about or overwrites a newer
one."""

import re
from functools import partial
from typing import Any

import httpx
import pytest

from tests.support.console_pages import forms, text_of
from tests.support.facade import Facade, new_id, submission
from tests.support.orders import Returns
from tests.support.retries import resend_until_settled
from tests.support.service import Service
from tests.support.waiting import eventually

pytestmark = pytest.mark.long

LATE = "Look at the current version first"


async def form_of(http: httpx.AsyncClient, page: str, action: str, last: bool = False) -> dict[str, str]:
    """Return the fields of the page's first (or last) form with this action."""
    found = [each.fields for each in forms((await http.get(page)).text) if each.action == action]
    return found[-1 if last else 0]


async def send(http: httpx.AsyncClient, path: str, form: dict[str, Any]) -> httpx.Response:
    """Send a form until its command has been decided; returns the answer."""
    return await resend_until_settled(partial(http.post, path, data=form))


async def send_and_follow(http: httpx.AsyncClient, path: str, form: dict[str, Any]) -> str:
    """Send a form; returns the text of the page that its answer redirects to."""
    answer = await send(http, path, form)
    assert answer.status_code == 303, answer.text
    return text_of((await http.get(answer.headers["location"])).text)


@pytest.fixture
async def review(facade: Facade) -> tuple[str, str]:
    """Submit a review, which waits; returns its id and that of its object."""
    entity = new_id()
    (id,) = await facade.submit(submission(entity, 4, title="As it was", review="Harmless"))
    return id, entity


async def test_changed_text_is_not_approved(http: httpx.AsyncClient, facade: Facade, review: tuple[str, str]) -> None:
    """Neither on its page, nor in the queue by its button, with other reviews, or by a shortcut."""
    id, entity = review
    here, path = f"/console/reviews/{id}", f"/console/reviews/{id}/decide"
    queue = f"/console/queue?q={entity}"
    on_page, in_row = await form_of(http, here, path), await form_of(http, queue, path)
    marks = (await form_of(http, queue, "/console/queue/bulk")) | {"ids": id, f"seen-{id}": in_row["seen"]}
    await facade.edit_as_author(id, "Buy at www.example.com")
    for form in (on_page, in_row):
        late = await send(http, path, {**form, "action": "approve"})
        assert (late.status_code, "was changed in the meantime" in late.text) == (409, True), late.text
        assert f'href="{form["back"].replace("&", "&amp;")}"' in late.text
    words = await send_and_follow(http, "/console/queue/bulk", {**marks, "action": "approve"})
    assert "1 skipped: changed in the meantime" in words
    assert "As it was" in words
    late = await send(http, "/console/queue/decisions", {**marks, "action": "approve", "expected": "New"})
    (result,) = late.json()["results"]
    assert (result["id"], result["outcome"], result["reason"]) == (id, "refused", "text-changed")
    assert (await facade.review(id))["reviewStatus"] == "New"
    now = await form_of(http, here, path)
    assert (await send(http, path, {**now, "action": "approve"})).status_code == 303
    assert (await facade.review(id))["reviewStatus"] == "Approved"


async def test_text_edited_while_no_worker_runs_is_not_approved(own_service: Service, own_facade: Facade) -> None:
    """The page still shows the previous text. When workers are back, edit and decision are consumed in any order."""
    http, entity = own_facade.http, new_id()
    ids = await own_facade.submit(*(submission(entity, 4, title="As it was", review="Harmless") for _ in range(3)))
    await own_service.stop("worker")
    for id in ids:
        edit = submission(entity, 4, id=id, title="As it was", review=f"Buy at www.example.com, {id}")
        assert (await http.post("/api/customerReviews", json=[edit])).status_code == 202
        path = f"/console/reviews/{id}/decide"
        form = await form_of(http, f"/console/reviews/{id}", path)
        answer = await http.post(path, data={**form, "action": "approve"})
        assert "done=accepted" in answer.headers["location"]
    own_service.start("worker")
    await own_service.idle()
    edited = {id: ("New", f"Buy at www.example.com, {id}") for id in ids}

    rows = [await own_facade.review(id) for id in ids]
    assert {row["id"]: (row["reviewStatus"], row["review"]) for row in rows} == edited


async def test_waiting_changes_by_others_are_kept(own_service: Service, own_facade: Facade) -> None:
    """Of a review and of a return, in the fields that a form left as they were: the page still shows those from before,
    as no worker has applied the changes."""
    http, entity, returns = own_facade.http, new_id(), Returns(own_service, own_facade.http)
    (id,) = await own_facade.submit(submission(entity, 4, title="As it was", review="Harmless"))
    place = await returns.create(await returns.ordered({"a": 3}), {"a": 1}, resolution="Before")
    await own_service.stop("worker")
    edit = submission(entity, 2, id=id, title="As it was", review="The author's newer words")
    assert (await http.post("/api/customerReviews", json=[edit])).status_code == 202
    change = {"id": place, "resolution": "Theirs"}
    assert (await http.put("/api/return", json=change, headers={"prefer": "wait=0"})).status_code == 202
    for page, path, typed in (
        (f"/console/reviews/{id}", f"/console/reviews/{id}/edit", {"userName": "A. B."}),
        (f"/console/returns/{place}", f"/console/returns/{place}/status", {"status": "Approved"}),
    ):
        answer = await http.post(path, data={**await form_of(http, page, path), **typed})
        assert "done=accepted" in answer.headers["location"]
    own_service.start("worker")
    await own_service.idle()
    review, row = await own_facade.review(id), await returns.existing(place)
    assert (review["userName"], review["review"], review["rating"]) == ("A. B.", edit["review"], 2)
    assert (row["status"], row["resolution"]) == ("Approved", "Theirs")


async def test_unchanged_reviews_are_decided_beside_a_changed_one(
    http: httpx.AsyncClient, facade: Facade, review: tuple[str, str]
) -> None:
    id, entity = review
    (same,) = await facade.submit(submission(entity, 5))
    marks = {}
    for each in (id, same):
        form = await form_of(http, f"/console/reviews/{each}", f"/console/reviews/{each}/decide")
        marks[f"seen-{each}"] = form["seen"]
    await facade.edit_as_author(id, "Other words")
    sent = {**marks, "ids": [id, same], "action": "reject", "reasonCode": "spam"}
    decision = {**sent, "expected": "New", "key": new_id("key")}
    # On a busy machine the page may answer without the results.
    late = await eventually(
        partial(send, http, "/console/queue/decisions", decision), lambda answer: len(answer.json()["results"]) == 2
    )
    assert {each["id"]: each["outcome"] for each in late.json()["results"]} == {id: "refused", same: "applied"}
    assert [(await facade.review(each))["reviewStatus"] for each in (id, same)] == ["New", "Rejected"]


async def test_conflict_names_who_was_faster(http: httpx.AsyncClient, facade: Facade, review: tuple[str, str]) -> None:
    id, _ = review
    path = f"/console/reviews/{id}/decide"
    form = await form_of(http, f"/console/reviews/{id}", path)
    await facade.moderate("reject", id)
    late = await send(http, path, {**form, "action": "approve"})
    assert late.status_code == 409
    assert "Somebody else was faster: it is Rejected. Nothing was changed." in text_of(late.text)
    assert f'href="/console/reviews/{id}"' in late.text


async def test_outdated_page_does_not_reject_a_kept_review(
    http: httpx.AsyncClient, facade: Facade, review: tuple[str, str]
) -> None:
    """Neither on its page, nor in the queue by its button, with other reviews, or by a shortcut. Keeping it twice is no
    conflict."""
    id, entity = review
    await facade.moderate("approve", id)
    report = {"reason": "spam", "explanation": "It advertises", "goodFaith": True}
    await facade.command("POST", f"/api/customerReviews/{id}/reports", report)
    here, path = f"/console/reviews/{id}", f"/console/reviews/{id}/decide"
    queue = f"/console/queue?only=reported&q={entity}"
    on_page, in_row = await form_of(http, here, path), await form_of(http, queue, path)
    marks = (await form_of(http, queue, "/console/queue/bulk")) | {"ids": id, f"seen-{id}": in_row["seen"]}
    rejection = {"action": "reject", "reasonCode": "spam"}
    await facade.moderate("approve", id)
    for form in (on_page, in_row):
        late = await send(http, path, {**form, **rejection})
        assert (late.status_code, "Somebody has kept the review in the meantime" in late.text) == (409, True), late.text
    words = await send_and_follow(http, "/console/queue/bulk", {**marks, **rejection, f"status-{id}": "Approved"})
    assert "1 skipped: somebody has kept them in the meantime" in words
    late = await send(http, "/console/queue/decisions", {**marks, **rejection, "expected": "Approved"})
    assert late.json()["results"] == [{"id": id, "outcome": "refused", "reason": "kept"}]
    assert (await send(http, path, {**in_row, "action": "approve"})).status_code == 303
    assert (await facade.review(id))["reviewStatus"] == "Approved"
    now = await form_of(http, here, path)
    assert (await send(http, path, {**now, **rejection})).status_code == 303
    assert (await facade.review(id))["reviewStatus"] == "Rejected"


async def test_changed_objects_are_not_deleted(
    http: httpx.AsyncClient, facade: Facade, review: tuple[str, str], returns: Returns
) -> None:
    """Neither a review, nor a return, nor a mail template; each can be deleted from its current page."""
    id, _ = review
    here = f"/console/reviews/{id}"
    read = await form_of(http, here, f"{here}/delete")
    await facade.edit_as_author(id, "Not the words that offended")
    late = await send(http, f"{here}/delete", read)
    assert (late.status_code, "was changed in the meantime" in late.text) == (409, True), late.text
    read = await form_of(http, here, f"{here}/delete")
    await facade.moderate("approve", id)
    late = await send(http, f"{here}/delete", read)
    assert (late.status_code, "was faster: it is Approved" in late.text) == (409, True), late.text
    place = f"/console/returns/{await returns.create(await returns.ordered({'a': 3}), {'a': 1})}"
    for change in ({"resolution": "Refund"}, {"status": "Approved"}):
        read = await form_of(http, place, f"{place}/delete")
        await returns.change(place.rpartition("/")[2], **change)
        late = await send(http, f"{place}/delete", read)
        assert (late.status_code, LATE in late.text) == (409, True), late.text
    mail = f"/console/templates/OrderReviewRequest?store={await facade.open_store()}"
    api = mail.replace("/console/templates", "/api/notificationTemplates").replace("store=", "storeId=")
    theirs = {"subject": "Theirs", "html": "<p>Theirs</p>", "text": "Theirs"}
    await facade.command("PUT", api, {**theirs, "subject": "Before"})
    read = await form_of(http, mail, mail, last=True)
    await facade.command("PUT", api, theirs)
    late = await send(http, mail, {**read, "step": "delete"})
    assert (late.status_code, LATE in late.text) == (409, True), late.text
    for page, path in ((here, f"{here}/delete"), (place, f"{place}/delete"), (mail, mail)):
        form = {**await form_of(http, page, path, last=True), "step": "delete"}
        assert [(await send(http, path, form)).status_code for _ in range(2)] == [303, 303], page


async def test_outdated_edit_overwrites_nothing(
    http: httpx.AsyncClient, facade: Facade, review: tuple[str, str]
) -> None:
    id, _ = review
    here, path = f"/console/reviews/{id}", f"/console/reviews/{id}/edit"
    form = await form_of(http, here, path)
    await facade.edit_as_author(id, "The author's newer words")
    typed = {**form, "rating": "3"}
    late = await send(http, path, typed)
    assert (late.status_code, LATE in late.text) == (409, True), late.text
    assert "The author&#39;s newer words" in late.text
    again = next(each.fields for each in forms(late.text) if each.action == path)
    assert (again["review"], again["rating"]) == ("The author's newer words", "3")
    stored = await facade.review(id)
    assert (stored["review"], stored["rating"]) == ("The author's newer words", 4)
    assert (await send(http, path, again)).status_code == 303
    stored = await facade.review(id)
    assert (stored["review"], stored["rating"]) == ("The author's newer words", 3)
    # Values changed by both are shown next to the typed ones.
    late = await send(http, path, {**form, "review": "Mine", "key": new_id("key")})
    assert "Now: The author's newer words" in text_of(late.text)
    assert re.search(r'name="review"[^>]* aria-invalid="true" aria-describedby="errors">\nMine</textarea>', late.text)


async def test_untouched_fields_of_outdated_return_form_are_updated(http: httpx.AsyncClient, returns: Returns) -> None:
    id = await returns.create(await returns.ordered({"a": 9}), {"a": 1})
    here, path = f"/console/returns/{id}", f"/console/returns/{id}/status"
    form = await form_of(http, here, path)
    await returns.change(id, status="Approved")
    late = await send(http, path, {**form, "resolution": "Mine"})
    assert "Status : The return now has the status Approved" in text_of(late.text)
    assert "<option selected>Approved</option>" in late.text
    again = {**next(each.fields for each in forms(late.text) if each.action == path), "status": "Approved"}
    assert (await send(http, path, again)).status_code == 303
    row = await returns.existing(id)
    assert (row["status"], row["resolution"]) == ("Approved", "Mine")

    form = {**await form_of(http, here, path), "status": "Approved"}
    await returns.change(id, resolution="Theirs")
    for typed, shown, now in (("Mine", "Theirs", False), ("Other", "Other", True)):
        late = await send(http, path, {**form, "resolution": typed, "status": "Processing", "key": new_id("key")})
        assert (late.status_code, LATE in late.text) == (409, True)
        again = next(each.fields for each in forms(late.text) if each.action == path)
        assert again["resolution"] == shown
        assert ("Now: Theirs" in text_of(late.text)) is now


async def test_repeated_form_is_no_conflict(
    http: httpx.AsyncClient, facade: Facade, review: tuple[str, str], returns: Returns
) -> None:
    """The second request finds the effect of the first, which isn't a conflict."""
    id, _ = review
    here = f"/console/reviews/{id}"
    for name, typed in (("edit", {"title": "Mended"}), ("reply", {"text": "Thanks", "author": "Shop"})):
        form = {**await form_of(http, here, f"{here}/{name}"), **typed}
        answers = [await send(http, f"{here}/{name}", form) for _ in range(2)]
        assert [each.status_code for each in answers] == [303, 303], name
    place = f"/console/returns/{await returns.create(await returns.ordered({'a': 3}), {'a': 1})}"
    for name, typed in (("lines", {"quantity": "2", "reason": "Torn"}), ("status", {"resolution": "Refund"})):
        form = {**await form_of(http, place, f"{place}/{name}"), **typed}
        form |= {"status": "Approved"} if name == "status" else {}
        answers = [await send(http, f"{place}/{name}", form) for _ in range(2)]
        assert [each.status_code for each in answers] == [303, 303], name


async def test_repeated_form_adds_line_once(http: httpx.AsyncClient, returns: Returns) -> None:
    """Repeated requests find the line, even with another key or without the version that the page showed."""
    id = await returns.create(await returns.ordered({"a": 3, "x": 3}), {"a": 1})
    place = f"/console/returns/{id}/lines"
    form: dict[str, Any] = await form_of(http, f"/console/returns/{id}", place)
    own = [(await returns.existing(id))["lineItems"][0]["id"], ""]
    form |= {"line": ["a", "x"], "own": own, "quantity": ["1", "2"], "reason": ["", "scratch"]}
    for sent in (form, form, {name: form[name] for name in form if name != "seen"}, {**form, "key": new_id("key")}):
        answer = await send(http, place, sent)
        assert answer.status_code == 303, answer.text
        lines = (await returns.existing(id))["lineItems"]
        assert [(line["orderLineItemId"], line["quantity"], line["reason"]) for line in lines] == [
            ("a", 1, None),
            ("x", 2, "scratch"),
        ]


async def test_reply_of_others_is_not_overwritten(
    http: httpx.AsyncClient, facade: Facade, review: tuple[str, str]
) -> None:
    id, _ = review
    path = f"/console/reviews/{id}/reply"
    form = await form_of(http, f"/console/reviews/{id}", path)
    await facade.command("POST", f"/api/customerReviews/{id}/reply", {"text": "Berta's", "author": "Shop"})
    for typed, shown in (({"text": "Mine"}, "Mine"), ({"action": "remove", "text": ""}, "Berta's")):
        late = await send(http, path, {**form, **typed, "key": new_id("key")})
        assert (late.status_code, LATE in late.text) == (409, True), late.text
        assert "The reply as it is now, signed by Shop : Berta's" in text_of(late.text)
        again = next(each.fields for each in forms(late.text) if each.action == path)
        assert again["text"] == shown
    assert (await facade.review(id))["reply"]["text"] == "Berta's"
    await facade.command("DELETE", f"/api/customerReviews/{id}/reply")
    late = await send(http, path, {**again, "text": "Mine", "key": new_id("key")})
    assert (late.status_code, "The reply has been removed." in late.text) == (409, True), late.text


async def test_quantities_of_return_are_not_overwritten(http: httpx.AsyncClient, returns: Returns) -> None:
    id = await returns.create(await returns.ordered({"a": 9}), {"a": 1})
    place = f"/console/returns/{id}"
    form = await form_of(http, place, f"{place}/lines")
    await returns.change(id, resolution="Refund")
    late = await send(http, f"{place}/lines", {**form, "quantity": "7"})
    assert (late.status_code, LATE in late.text) == (409, True), late.text
    assert "Now 1" in text_of(late.text)
    again = next(each.fields for each in forms(late.text) if each.action == f"{place}/lines")
    assert again["quantity"] == "7"
    assert (await send(http, f"{place}/lines", again)).status_code == 303
    row = await returns.existing(id)
    assert (row["lineItems"][0]["quantity"], row["resolution"]) == (7, "Refund")


async def test_lines_changed_by_others_are_shown_beside_typed_values(http: httpx.AsyncClient, returns: Returns) -> None:
    """If it differs from the form; a form that is invalid by itself shows only the typed values."""
    id = await returns.create(await returns.ordered({"a": 9, "b": 9}), {"a": 1, "b": 1})
    place = f"/console/returns/{id}/lines"
    own = [line["id"] for line in (await returns.existing(id))["lineItems"]]
    form = {**await form_of(http, f"/console/returns/{id}", place), "line": ["a", "b"], "own": own, "reason": ["", ""]}
    wrong = await send(http, place, {**form, "quantity": ["10", "1"]})
    assert (wrong.status_code, "Now 1" in text_of(wrong.text)) == (422, False), wrong.text
    theirs = [{"orderLineItemId": "a", "quantity": 3, "reason": "<b>Torn"}, {"orderLineItemId": "b", "quantity": 1}]
    await returns.change(id, lineItems=theirs)
    late = await send(http, place, {**form, "quantity": ["7", "1"]})
    assert (late.status_code, LATE in late.text) == (409, True), late.text
    assert "Now 3: &lt;b&gt;Torn" in late.text
    assert "Now 1" not in text_of(late.text)
    assert [line["quantity"] for line in (await returns.existing(id))["lineItems"]] == [3, 1]
    await returns.change(id, lineItems=theirs[1:])
    late = await send(http, place, {**form, "quantity": ["7", "1"]})
    assert re.search(r'value="7"\s+aria-label="Quantity of a".*?>Now 0<', late.text, re.DOTALL)


async def test_values_typed_for_line_added_by_others_are_kept(http: httpx.AsyncClient, returns: Returns) -> None:
    """Next to the other's values; a line without typed values is shown as it is."""
    id = await returns.create(await returns.ordered({"a": 9, "x": 9, "y": 9}), {"a": 1})
    place = f"/console/returns/{id}/lines"
    form: dict[str, Any] = await form_of(http, f"/console/returns/{id}", place)
    (first,) = (await returns.existing(id))["lineItems"]
    kept = {"id": first["id"], "orderLineItemId": "a", "quantity": 1}
    theirs = [{"orderLineItemId": "x", "quantity": 1}, {"orderLineItemId": "y", "quantity": 3}]
    await returns.change(id, lineItems=[kept, *theirs])
    form |= {"line": ["a", "x", "y"], "own": [first["id"], "", ""]}
    late = await send(http, place, {**form, "quantity": ["1", "2", "0"], "reason": ["", "scratch", ""]})
    assert (late.status_code, LATE in late.text) == (409, True), late.text
    assert re.search(r'value="2"\s+aria-label="Quantity of x".*?>Now 1<', late.text, re.DOTALL), late.text
    assert 'value="scratch"' in late.text
    assert re.search(r'value="3"\s+aria-label="Quantity of y"', late.text), late.text
    assert "Now 3" not in late.text
    again: dict[str, Any] = next(each.fields for each in forms(late.text) if each.action == place)
    own = [line["id"] for line in (await returns.existing(id))["lineItems"]]
    again |= {"line": ["a", "x", "y"], "own": own, "quantity": ["1", "2", "3"], "reason": ["", "scratch", ""]}
    assert (await send(http, place, again)).status_code == 303
    assert [line["quantity"] for line in (await returns.existing(id))["lineItems"]] == [1, 2, 3]
