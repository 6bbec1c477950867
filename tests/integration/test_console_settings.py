"""Stores, rules, reminders, templates, the audit log, object types and keys in the console, without JavaScript."""

import csv
import io
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from html import unescape
from itertools import chain
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx
import pytest
from markupsafe import escape

from tests.support.browser import Browser
from tests.support.console_pages import Console, checked, forms, text_of
from tests.support.facade import Facade, new_id, submission
from tests.support.retries import resend_until_settled
from tests.support.service import Json, Servers, Service

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'
COOKIE = "__Host-plaudit"
MAIL = "/console/templates/OrderReviewRequest"
ACCEPTED: Final = "Accepted. It takes effect in a moment."
"""Text of a page whose change hasn't taken effect yet, on a busy machine."""


@dataclass
class Settler(Console):
    """A visitor who sends a form of settings only once, since a repeat might be overtaken, and waits for its effect."""

    service: Service

    async def send(self, page: str, action: str, typed: Mapping[str, str | None], *, status: int = 200) -> str:
        form = next(each for each in forms(page) if urlsplit(each.action).path == action)
        given = {name: value for name, value in {**form.fields, **typed}.items() if value is not None}
        where = form.buttons.get(given.get("step", "")) or form.action
        response = await self.http.request(form.method, where, data=given)
        if response.status_code == 303:
            to = response.headers["location"]
            if "done=accepted" in to:
                await self.service.idle()
            response = await self.http.get(to)
        return checked(response, status)


@pytest.fixture
def console(service: Service, http: httpx.AsyncClient) -> Settler:
    return Settler(http, service)


@pytest.fixture
async def store(facade: Facade) -> str:
    return await facade.open_store(name="Photo")


async def _settings(facade: Facade, store: str) -> Json:
    settings: Json = (await facade.get(f"/api/stores/{store}"))["settings"]
    return settings


async def test_store_is_registered_and_changed_after_review(console: Console, facade: Facade) -> None:
    id = new_id("store")
    page = await console.send(
        await console.open("/console/stores"), "/console/stores", {"id": id, "name": HOSTILE}, status=200
    )
    here = f"/console/stores/{id}"
    if ACCEPTED in text_of(page):  # the list, which then doesn't contain the store yet
        page = await console.open(here)
    assert HOSTILE not in page
    assert str(escape(HOSTILE)) in page
    typed = {"name": "Garden", "settings.reviewsEnabled": "on", "languages": "en\nde", "step": "review"}
    changes = await console.send(page, here, typed)
    assert "3 values would change. Nothing is saved yet." in text_of(changes)
    assert (await facade.get(f"/api/stores/{id}"))["name"] == HOSTILE
    back = await console.send(changes, here, {"step": "edit"})
    assert 'value="Garden"' in back
    saved = await console.send(changes, here, {"step": "save"})
    assert "Saved." in text_of(saved) or ACCEPTED in text_of(saved)
    found = await facade.get(f"/api/stores/{id}")
    assert (found["name"], found["languages"], found["settings"]["reviewsEnabled"]) == ("Garden", ["en", "de"], True)
    assert found["settings"]["purchaseRequired"] is True
    changed, registered = (await facade.get("/api/audit", storeId=id))["results"]
    assert (registered["fields"], changed["fields"]) == (["name"], ["name", "languages", "settings.reviewsEnabled"])


async def test_refused_registration_keeps_typed_values(console: Console, store: str) -> None:
    page = await console.open("/console/stores")
    for id, status in ((store, 409), ("..", 422), ("x" * 200, 422)):
        refused = await console.send(page, "/console/stores", {"id": id, "name": "Garden"}, status=status)
        (form,) = [each.fields for each in forms(refused) if each.action == "/console/stores"]
        assert (form["id"], form["name"]) == (id, "Garden")
        assert (f'href="/console/stores/{store}">Open that store' in refused) is (id == store)
    assert "Photo" in await console.open(f"/console/stores/{store}")


async def test_repeated_registration_is_no_conflict(http: httpx.AsyncClient, facade: Facade) -> None:
    """The second request finds the store that the first one registered, as long as it is still as registered."""
    send = partial(http.post, "/console/stores", headers={"sec-fetch-site": "same-origin"})
    for name in ("Garden", ""):
        form = {"id": new_id("store"), "name": name, "key": new_id("key")}
        first, second = [await resend_until_settled(partial(send, data=form)) for _ in range(2)]
        assert (first.status_code, second.status_code) == (303, 303)
        assert second.headers["location"].startswith(f"/console/stores/{form['id']}?")
        other = await send(data={**form, "name": "Kitchen", "key": new_id("key")})
        assert (other.status_code, "A store with this id already exists" in other.text) == (409, True)
        await facade.command("PUT", f"/api/stores/{form['id']}", {"settings": {"purchaseRequired": False}})
        assert (await send(data=form)).status_code == 409


@pytest.mark.long
async def test_rule_without_name_is_kept(console: Console, facade: Facade, store: str) -> None:
    """It is shown again with a request for a name; only an untouched row is no rule."""
    here = f"/console/stores/{store}/rules"
    page = await console.open(here)
    nothing = {"0.kind": "words", "0.outcome": "hold"}
    assert "Nothing." in text_of(await console.send(page, here, {**nothing, "step": "try"}))
    for typed in ({**nothing, "0.words": "scam"}, {"0.kind": "links", "0.outcome": "flag"}):
        refused = await console.send(page, here, {**typed, "step": "try"}, status=422)
        assert "Name: " in text_of(refused)
        for value in typed.values():
            assert re.search(rf"<option selected>{value}<|>{value}</textarea>", refused), value
        trial = await console.send(refused, here, {**typed, "0.id": "mine", "step": "try"})
        assert "mine none" in text_of(trial)
    deep = "[" * 100_000
    for odd in ("[1]", '[{"words": 5}]', '[{"id": "a", "below": NaN}]', '[{"id": "\\ud800"}]', deep):
        for step in ("edit", "try", "save"):
            answer = await console.http.post(here, data={"rules": odd, "loaded": "[]", "step": step})
            assert answer.status_code == 422, (odd[:40], step)
    assert (await console.http.post(here, data={"loaded": deep, "step": "try"})).status_code == 422
    assert (await console.http.post("/console/settings", data={"loaded": deep})).status_code == 422


async def test_each_value_names_its_source(console: Console, facade: Facade, store: str) -> None:
    await facade.command(
        "PUT", f"/api/stores/{store}", {"settings": {"returnNumberTemplate": "A{date:%y}-{sequence:d}"}}
    )
    words = text_of(await console.open(f"/console/stores/{store}"))
    assert "now A{date:%y}-{sequence:d} this store" in words
    assert "Only from people who bought the object now no this store" in words
    assert "Reviews keep their status when their author edits them now no default" in words
    general = text_of(await console.open("/console/settings"))
    assert "A cron expression, in UTC · now" in general


async def test_invalid_value_is_kept_with_its_error(console: Console, store: str) -> None:
    here = f"/console/stores/{store}"
    typed = {"settings.reviewUrl": "ftp://nowhere", "step": "review"}
    refused = await console.send(await console.open(here), here, typed, status=422)
    assert 'value="ftp://nowhere"' in refused
    assert "Page where customers write reviews: " in text_of(refused).replace(" :", ":")
    assert "/settings/reviewUrl" not in refused
    assert 'aria-invalid="true"' in refused


async def test_outdated_form_does_not_overwrite_settings(console: Console, facade: Facade, store: str) -> None:
    here = f"/console/stores/{store}"
    changes = await console.send(await console.open(here), here, {"name": "Mine", "step": "review"})
    theirs = {"name": "Theirs", "settings": {"oneReviewPerCustomer": True}}
    await facade.command("PUT", f"/api/stores/{store}", theirs)
    again = await console.send(changes, here, {"step": "save"}, status=409)
    assert "Somebody else has changed some of these in the meantime" in text_of(again)
    assert "Theirs" in text_of(again)
    assert (await facade.get(f"/api/stores/{store}"))["name"] == "Theirs"
    await console.send(again, here, {"step": "save"})
    found = await facade.get(f"/api/stores/{store}")
    assert (found["name"], found["settings"]["oneReviewPerCustomer"]) == ("Mine", True)


async def test_existing_values_are_no_change(console: Console, facade: Facade, store: str) -> None:
    """Somebody else saved the same value, or the form is repeated; the other's further changes stay."""
    here = f"/console/stores/{store}"
    page = await console.open(here)
    theirs = {"name": "Garden", "email": "shop@example.org"}
    await facade.command("PUT", f"/api/stores/{store}", theirs)
    assert "Nothing would change." in text_of(await console.send(page, here, {"name": "Garden", "step": "review"}))
    typed = {"name": "Garden", "settings.oneReviewPerCustomer": "on"}
    changes = await console.send(page, here, {**typed, "step": "review"})
    assert "1 value would change." in text_of(changes)
    assert "Somebody else" not in text_of(changes)
    for key in (new_id("key"), new_id("key")):
        saved = text_of(await console.send(changes, here, {"step": "save", "key": key}))
        assert "Saved." in saved or ACCEPTED in saved
    found = await facade.get(f"/api/stores/{store}")
    assert {name: found[name] for name in theirs} == theirs
    assert found["settings"]["oneReviewPerCustomer"] is True
    (last, *_) = (await facade.get("/api/audit", storeId=store))["results"]
    assert last["fields"] == ["settings.oneReviewPerCustomer"]


@pytest.mark.long
async def test_rules_are_tried_on_reviews_before_saving(
    console: Console, facade: Facade, store: str, product: str
) -> None:
    await facade.submit(
        submission(product, title="Advert", review="Look at www.example.com", storeId=store),
        submission(product, title=HOSTILE, review="Sharp", storeId=store),
    )
    here = f"/console/stores/{store}/rules"
    page = await console.open(here)
    wrong = {"0.id": "stars", "0.kind": "stars", "0.outcome": "hold", "step": "try"}
    refused = await console.send(page, here, wrong, status=422)
    assert 'value="stars"' in refused
    typed = {"0.id": "links", "0.kind": "links", "0.outcome": "hold", "step": "try"}
    trial = await console.send(refused, here, typed)
    words = text_of(trial)
    assert "On the last 2 reviews" in words
    assert "held 0 1" in words
    assert "Advert" in words
    assert (await _settings(facade, store))["moderationRules"] == []
    await console.send(trial, here, {"step": "save"})
    assert (await _settings(facade, store))["moderationRules"] == [{"id": "links", "kind": "links", "outcome": "hold"}]
    again = await console.send(trial, here, {"step": "save", "key": new_id("key")})
    assert "Saved." in text_of(again)
    kinds = [{"id": "links", "kind": "links", "outcome": outcome} for outcome in ("flag", "hold")]
    await facade.command("PUT", f"/api/stores/{store}", {"settings": {"moderationRules": kinds[:1]}})
    overtaken = await console.send(trial, here, {"step": "save", "key": new_id("key")}, status=409)
    assert "Somebody else has changed the rules" in text_of(overtaken)
    await facade.command("PUT", f"/api/stores/{store}", {"settings": {"moderationRules": kinds[1:]}})
    same = text_of(await console.send(trial, here, {"step": "try"}))
    assert ("Changes Nothing." in same, "Somebody else" in same) == (True, False)
    gone = await console.send(await console.open(here), here, {"0.remove": "on", "step": "try"})
    assert "links links, hold none" in text_of(gone)
    await console.send(gone, here, {"step": "save"})
    assert (await _settings(facade, store))["moderationRules"] == []


@pytest.mark.long
async def test_template_is_previewed_saved_and_deleted(console: Console, facade: Facade, store: str) -> None:
    place = f"{MAIL}?store={store}&language=de"
    page = await console.open(place)
    assert "the built-in one is used" in text_of(page)
    typed = {"subject": "Wie war {{ order.number }}?", "html": f"<p>Hallo</p>{HOSTILE}", "text": "Hallo"}
    action, preview = MAIL, f"{MAIL}/preview?store={store}&language=de"
    mail = await console.http.post(preview, data={**typed, "step": "html"})
    policy = mail.headers["content-security-policy"].split("; ")
    assert mail.status_code == 200
    assert "sandbox" in policy
    assert "default-src 'none'" in policy
    assert not any("script" in each or "allow-" in each for each in policy)
    assert "<p>Hallo</p>" in mail.text
    as_text = await console.http.post(preview, data={**typed, "step": "text"})
    assert as_text.headers["content-type"].startswith("text/plain")
    assert as_text.text.startswith("Subject: Wie war ")
    broken = await console.http.post(preview, data={**typed, "html": "<p>\n{% if %}", "step": "html"})
    assert broken.status_code == 422
    assert "Line 2" in broken.text
    refused = await console.send(page, action, {**typed, "html": "<p>\n{% if %}", "step": "save"}, status=422)
    assert "2: {% if %}" in text_of(refused)
    assert str(escape("Wie war {{ order.number }}?")) in refused
    saved = await console.send(page, action, {**typed, "step": "save"})
    assert "saved here" in text_of(saved)
    shown = await facade.get("/api/notificationTemplates/OrderReviewRequest", storeId=store, languageCode="de")
    assert (shown["subject"], shown["html"]) == (typed["subject"], typed["html"])
    conflict = await console.send(page, action, {**typed, "text": "Mein", "step": "save"}, status=409)
    assert "Somebody else has changed this template" in text_of(conflict)
    assert text_of(conflict).count("As it is now") == 1
    assert re.search(
        r"Mein</textarea></label>\s*<details open[^>]*>\s*<summary>As it is now</summary><pre>Hallo</pre>", conflict
    )
    again = await console.send(page, action, {**typed, "step": "save", "key": new_id("key")})
    assert "Saved." in text_of(again)
    # The button to delete has a form of its own, away from the one to save.
    editor, removal = (each for each in forms(saved) if each.action.startswith(f"{MAIL}?"))
    assert ("delete" in editor.buttons, "delete" in removal.buttons) == (False, True)
    removed = await console.send(saved, action, {"step": "delete"})
    assert "the built-in one is used" in text_of(removed)
    assert "OrderReviewRequest" in await console.open("/console/templates")


async def test_audit_log_is_filtered_and_exported(console: Console, facade: Facade) -> None:
    id = new_id("store")
    await facade.command("PUT", f"/api/stores/{id}", {"name": "Photo"})
    await facade.command("PUT", f"/api/stores/{id}", {"email": "shop@example.org"})
    words = text_of(await console.open(f"/console/audit?store={id}&kind=store"))
    assert "change store" in words
    assert "register store" in words
    assert "No entry matches these filters" in await console.open(f"/console/audit?store={id}&until=2020-01-01")
    table = await console.http.get(f"/console/audit/export?store={id}&format=csv")
    assert "attachment" in table.headers["content-disposition"]
    assert [row["fields"] for row in csv.DictReader(io.StringIO(table.text))] == ["email", "name"]
    lines = await console.http.get(f"/console/audit/export?store={id}&format=jsonl")
    assert len(lines.text.splitlines()) == 2
    assert "<b>From</b>: " in await console.open("/console/audit?since=never", status=422)


@pytest.mark.long
async def test_audit_log_pages_repeat_no_entry(console: Console, facade: Facade) -> None:
    """Even if entries are written while the pages are read, and many entries have the same time."""
    store, product = await facade.open_store(), new_id()
    ids = await facade.submit(*(submission(product, 4, storeId=store) for _ in range(120)))
    for some in (ids[:30], ids[30:]):
        await facade.moderate("approve", *some)
    seen: list[str] = []
    async for page in _pages(console, f"/console/audit?kind=review&action=approve&store={store}"):
        seen += re.findall(r'href="/console/reviews/([^"]+)"', page)
        await facade.submit_approved(*(submission(product, 4, storeId=store) for _ in range(5)))
    assert sorted(seen) == sorted(ids)


async def test_lists_of_many_stores_have_pages(console: Console, service: Service) -> None:
    """Each store is on one page, with a link to the next, and a search finds it; the same of keys and templates."""
    name, now = new_id("many"), datetime.now(UTC)
    ids = [f"{name}-{number:02}" for number in range(60)]
    rating: Json = {"entityType": "Product", "entityId": name, "count": 1, "sumHundredths": 400, "revision": 1}
    key: Json = {"client": "many", "permissions": [], "digest": b"", "created": now, "expires": None, "revoked": None}
    template: Json = {"name": "Mail", "languageCode": None, "subject": "x", "text": "x", "html": "x"}
    kept = f"q={name}&status=New"
    lists = {
        f"/console/stores?q={name}": f'/console/stores/({name}[^/"]*)"',
        f"/console/choose-store/reviews?{kept}&named={name}": f'/console/reviews\\?{kept}&store=({name}[^&"]*)"',
        f"/console/objects/Product/{name}": f"<h2>({name}.*)</h2>",
        f"/console/keys?q={name.upper()}": f"<code>({name}.*)</code>",
    }
    async with service.mongo() as database:
        await database["stores"].insert_many([{"_id": id} for id in ids])
        await database["ratings"].insert_many([{**rating, "storeId": id} for id in ids])
        await database["apiKeys"].insert_many([{**key, "_id": id, "stores": [id]} for id in reversed(ids)])
        templates = database["notificationTemplates"]
        await templates.insert_many([{**template, "_id": f"Mail?storeId={id}", "storeId": id} for id in ids])
        try:
            for first, pattern in lists.items():
                pages = [page async for page in _pages(console, first)]
                shown = [re.findall(pattern, unescape(page)) for page in pages]
                assert ([len(each) for each in shown], list(chain(*shown))) == ([50, 10], ids), first
                assert all("First page" in page for page in pages[1:])
                assert not any("First page" in page for page in pages[:1])
                assert all(' type="search"' in page for page in pages)
            pages = [page async for page in _pages(console, "/console/templates")]
            assert [id for page in pages for id in re.findall(f"<td>({name}.*)</td>", page)] == ids
            is_there = ["OrderReviewRequest for all stores," in page for page in pages]
            assert is_there == [True, *(False for _ in pages[1:])]
            assert max(page.count("<tr>") for page in pages) <= 50 + 2, "a built-in one, and the heading"
            assert all("Open OrderReviewRequest" in page.partition("<table")[0] for page in pages)
            assert "There are no more templates." in await console.open("/console/templates?after=X")
            assert text_of(await console.open(f"/console/keys?q={ids[-1]}")).count(ids[-1]) > 1
            past = await console.open(f"/console/keys?q={name}&after={ids[-1]}")
            assert f"Key, owner or store: {name}" in past
            assert "No key matches" in past
            one = await console.open(f"/console/objects/Product/{name}?store={ids[-1]}")
            assert re.findall(lists[f"/console/objects/Product/{name}"], one) == ids[-1:]
            assert "Remove the filter" in one
            gone = await console.open(f"/console/objects/Product/{name}?store=gone")
            assert "no approved reviews in this store" in text_of(gone)
            assert "No store matches" in await console.open(f"/console/stores?q={name}&after={ids[-1]}")
        finally:
            await templates.delete_many({"name": "Mail"})
            await database["apiKeys"].delete_many({"client": "many"})
            await database["ratings"].delete_many({"entityId": name})
            await database["stores"].delete_many({"_id": {"$in": ids}})


async def _pages(console: Console, link: str | None) -> AsyncIterator[str]:
    """A list from this page on, by the links to the next ones."""
    while link:
        yield (page := await console.open(link))
        following = re.search(r'rel="next" href="([^"]+)"', page)
        link = unescape(following[1]) if following else None


async def test_reminders_object_types_and_keys_are_shown(console: Console, store: str) -> None:
    words = text_of(await console.open(f"/console/reminders?store={store}&order=unheard-of"))
    assert "No order with this id is known" in words
    assert "Next runs" in words
    types = text_of(await console.open("/console/entity-types?type=Product&id=camera-1"))
    assert "1 is registered." in types
    assert "Product" in types
    assert "plaudit keys create" in await console.open("/console/keys")


@pytest.mark.long
async def test_read_only_visitor_of_one_store(servers: Servers, tmp_path: Path) -> None:
    """They see their store without the general settings, can't save, and keep the values that they typed."""
    service = Service(servers, tmp_path, environment={"PLAUDIT_AUTH__MODE": "api_key"})
    store, other = new_id("store"), new_id("store")
    readers = ("settings:read", "templates:read", "customerReviews:read", "audit:read", "keys:read")
    async with service.running(), httpx.AsyncClient(base_url=service.address, timeout=90) as http:
        everyone = await _key(service, ["settings:read", "settings:update"])
        owner = Facade(httpx.AsyncClient(base_url=service.address, timeout=90, headers={"x-api-key": everyone}))
        async with owner.http:
            for id in (store, other):
                await owner.command("PUT", f"/api/stores/{id}", {"name": "Photo"})
        browser = Browser(http)
        await browser.post("/console/sign-in", {"key": await _key(service, readers, "--store", store)})
        headers = {"cookie": f"{COOKIE}={browser.cookie(COOKIE)}", "sec-fetch-site": "same-origin"}
        async with httpx.AsyncClient(base_url=service.address, timeout=90, headers=headers) as signed_in:
            console = Settler(signed_in, service)
            stores = await console.open("/console/stores")
            assert store in stores
            assert other not in stores
            assert "No store matches" in await console.open(f"/console/stores?q={other}")
            page = await console.open(f"/console/stores/{store}")
            assert "now what they say general settings" in text_of(page)
            await console.open(f"/console/stores/{other}", status=403)
            for path in ("/console/settings", "/console/keys"):
                await console.open(path, status=403)
            for path in ("/console/reminders", "/console/audit", "/console/templates", f"{MAIL}?store={store}"):
                await console.open(path)
            rules = await console.open(f"/console/stores/{store}/rules")
            typed = {"0.id": "mine", "0.kind": "links", "0.outcome": "hold", "rules": None}
            refused = await console.send(rules, f"/console/stores/{store}/rules", {**typed, "step": "save"}, status=403)
            assert 'value="mine"' in refused
            assert "settings:update" in text_of(refused)


async def _key(service: Service, permissions: Iterable[str], *options: str) -> str:
    named = [each for permission in permissions for each in ("--permission", permission)]
    return (await service.run("keys", "create", new_id("visitor"), *named, *options)).stdout.strip()
