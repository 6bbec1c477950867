"""The console's pages of dead letters and of health, as a browser without JavaScript sees them."""

import json
import re
from functools import partial
from html import unescape

import httpx
import pytest

from tests.support.facade import Facade, new_id, submission
from tests.support.messages import Message
from tests.support.retries import resend_until_settled
from tests.support.service import Service
from tests.support.waiting import eventually

PATH = "/console/dead-letters"
TOPIC = "review-submissions"


async def publish_invalid(service: Service, key: str, *values: bytes | None) -> list[str]:
    """Publish invalid submissions; returns the places of their dead letters, oldest first."""
    await service.publish(TOPIC, *(Message(key, value) for value in values))
    return [f"{TOPIC}/{each.partition}/{each.offset}" for each in await service.letters(TOPIC, key, len(values))]


async def page_of(http: httpx.AsyncClient, path: str, status: int = 200) -> str:
    response = await http.get(path, headers={"accept": "text/html"})
    assert response.status_code == status, response.text
    return unescape(response.text)


async def page_with(http: httpx.AsyncClient, path: str, text: str) -> str:
    """Return the page once it contains this text: a search of the list stops after some seconds, and continues from
    there."""
    return await eventually(lambda: page_of(http, path), lambda page: text in page)


async def send_form(http: httpx.AsyncClient, path: str, status: int, **fields: str | list[str]) -> str:
    """Send a form; returns the page that answers it, after following a redirect."""
    send = partial(http.post, path, data={"key": new_id("key"), **fields})
    # The page of a single letter refuses what was replayed before, even with the same key.
    response = await (resend_until_settled(send) if path == PATH else send())
    assert response.status_code == status, response.text
    return unescape(response.text) if status != 303 else await page_of(http, response.headers["location"])


def typed_in(page: str) -> str:
    """Return the text of the value's field."""
    found = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", page, re.DOTALL)
    assert found, page
    return found[1]


@pytest.mark.long
async def test_letter_is_opened_edited_tried_and_replayed(
    facade: Facade, service: Service, http: httpx.AsyncClient, product: str
) -> None:
    evil = '</textarea><script>alert("x")</script>'
    review = submission(product, title=evil)
    (place,) = await publish_invalid(service, product, json.dumps({**review, "rating": 9}).encode())
    here = f"{PATH}/{place}"
    await page_with(http, f"{PATH}?topic={TOPIC}&code=invalid-message", f'href="{here}"')
    raw = (await http.get(here)).text
    assert "<script>alert" not in raw
    page = unescape(raw)
    assert "<code>/rating</code>" in page
    (unreadable,) = await publish_invalid(service, new_id(), b"no JSON")
    refused = await page_of(http, f"{PATH}/{unreadable}")
    assert "Its consumer would refuse it" in refused
    assert "<code>/</code>" not in refused
    shown = typed_in(raw)
    assert json.loads(unescape(shown)) == {**review, "rating": 9}

    assert "The value is empty" in await send_form(http, here, 422, action="replay", value=" ")
    again = await send_form(http, here, 422, action="replay", value=unescape(shown).replace("\n", "\r\n"))
    assert "would refuse it again" in again
    assert "Replay anyway" in again
    corrected = json.dumps(review, indent=1)
    tried = await send_form(http, here, 200, action="try", value=corrected)
    assert "Nothing has been published yet" in tried
    assert await facade.listed(entityIds=[product]) == []
    done = await send_form(http, here, 303, action="replay", value=corrected)
    assert "Replayed." in done or "Accepted. It takes effect in a moment." in done  # the latter on a busy machine
    await page_with(http, here, "It was replayed")
    (row,) = await facade.until_listed(product, 1)
    assert row["title"] == evil
    assert "replayed before" in await send_form(http, here, 422, action="replay", value=corrected)


@pytest.mark.long
async def test_selected_letters_are_tried_and_replayed(
    facade: Facade, service: Service, http: httpx.AsyncClient
) -> None:
    key = new_id()
    first, other = await publish_invalid(service, key, b"no JSON", b"nor this")
    tried = await send_form(http, PATH, 200, action="try", places=[first, other])
    assert "0 of 2 can be read" in tried
    done = await send_form(http, PATH, 200, action="replay", places=[first])
    assert "1 of 1 was replayed" in done
    new = (await service.letters(TOPIC, key, 3))[-1]
    await page_with(http, f"{PATH}?topic={TOPIC}", "refused again")
    assert dict(new.headers)["x-replayed-from"]
    page = await page_with(http, f"{PATH}/{TOPIC}/{new.partition}/{new.offset}", "A replay of")
    assert f'<a href="{PATH}/{first}">' in page
    both = await send_form(http, PATH, 200, action="replay", places=[first, other])
    assert "1 of 2 was replayed" in both
    assert "replayed before" in both
    assert "No letter is selected" in await send_form(http, PATH, 422, action="replay")


@pytest.mark.parametrize("value", [None, b"\xff\xfe", b'{"a": "\\u0000"}\0'])
async def test_binary_values_are_not_editable(service: Service, http: httpx.AsyncClient, value: bytes | None) -> None:
    (place,) = await publish_invalid(service, new_id(), value)
    page = await page_of(http, f"{PATH}/{place}")
    assert typed_in(page) == ""
    assert "New value" in page


@pytest.mark.parametrize("value", ['{"a": 1.10}', '{"a": 1, "a": 2}', "5e3", "text"])
async def test_value_is_shown_unchanged(service: Service, http: httpx.AsyncClient, value: str) -> None:
    (place,) = await publish_invalid(service, new_id(), value.encode())
    assert typed_in(await page_of(http, f"{PATH}/{place}")) == value


@pytest.mark.long
async def test_letters_in_every_state_are_listed(service: Service, http: httpx.AsyncClient, product: str) -> None:
    """Replayed letters are found too, even from a page without open ones."""
    (place,) = await publish_invalid(service, product, json.dumps({**submission(product), "rating": 9}).encode())
    await send_form(http, PATH, 200, action="replay", places=place)
    link = f'href="{PATH}/{place}"'
    assert link not in await page_of(http, f"{PATH}?topic={TOPIC}")
    empty = await page_with(http, f"{PATH}?topic=store-updates&code=no-sender", "All letters")
    (all_letters,) = re.findall(r'<a href="([^"]+)">All letters</a>', empty)
    page = await page_with(http, all_letters, link)
    assert "<option selected>any" in page


async def test_empty_list_wrong_filters_and_missing_letter(http: httpx.AsyncClient) -> None:
    await page_with(http, f"{PATH}?topic=store-updates&code=no-sender", "No dead letter matches these filters")
    page = await page_of(http, f"{PATH}?topic=store-updates&state=any&code=no-such-code", 422)
    assert re.search(r'<li><b>Code</b>: .*value="no-such-code"[^>]* aria-invalid="true"', page, re.DOTALL)
    assert re.findall(r"<option selected>([^<]+)", page) == ["store-updates", "any"]
    assert "No dead letter matches" not in page
    await page_of(http, f"{PATH}?topic=no-such-topic", 422)
    await page_of(http, f"{PATH}?after=x", 422)
    assert "no dead letter at this place" in await page_of(http, f"{PATH}/{TOPIC}/0/999999", 404)


@pytest.mark.long
async def test_failed_check_marks_the_health_in_the_navigation(service: Service, http: httpx.AsyncClient) -> None:
    """On every page, until the checks pass when they are made again."""
    async with service.mongo() as database:
        templates = database["notificationTemplates"]
        await templates.drop_index("name")
        try:
            await page_with(http, "/console/health", "These checks fail: indexes.")
            assert 'aria-label="needs attention"' in await page_of(http, "/console/dead-letters")
        finally:
            await templates.create_index("name", name="name")
    await page_with(http, "/console/health", 'aria-label="works"')
    assert 'aria-label="works"' in await page_of(http, "/console/dead-letters")


@pytest.mark.long
async def test_health_names_damaged_stores(service: Service, facade: Facade, http: httpx.AsyncClient) -> None:
    store = await facade.open_store()
    async with service.mongo() as database:
        await database["stores"].update_one({"_id": store}, {"$set": {"settings": None}})
        try:
            page = await page_with(http, "/console/health", f"1 store can't be read: {store}")
            assert "These checks fail: stores." in page
        finally:
            await database["stores"].delete_one({"_id": store})
    await page_with(http, "/console/health", 'aria-label="works"')


@pytest.mark.long
async def test_health_begins_with_its_summary(http: httpx.AsyncClient) -> None:
    # While a server is slow, the values that depend on it are missing.
    page = await page_with(http, "/console/health", f'<th scope="row">{TOPIC} ')
    assert re.search(r"<p>(All checks pass|The service works, with warnings|These checks fail).*? Checked at", page)
    assert "Batches of events not yet published" in page
    # The mark in the navigation, of the last look at the servers.
    await page_with(http, "/console/health", 'aria-label="works"')
