"""Notification templates through the facade and by Kafka."""

from __future__ import annotations

import json

import httpx
import pytest

from consumers.inbox import Inbox
from consumers.services import Services
from consumers.stores import StoreConsumer
from domain.templates import template_id
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.publisher import Publisher
from messaging.stores import STORE_UPDATE
from messaging.topics import Topic, TopicNames
from storage.database import connect
from storage.mails import StoredRecord
from storage.templates import TemplateRepository
from tests.support.facade import WAIT, Facade, new_id
from tests.support.hostile_templates import HOSTILE
from tests.support.messages import Message, message
from tests.support.service import Json, Service
from tests.support.waiting import eventually

TEMPLATES = "/api/notificationTemplates"
PATH = f"{TEMPLATES}/OrderReviewRequest"


async def effective(http: httpx.AsyncClient, **place: str) -> Json:
    response = await http.get(PATH, params=place)
    assert response.status_code == 200, response.text
    found: Json = response.json()
    return found


async def save(facade: Facade, body: Json, **place: str) -> str:
    """Save a template; returns its id."""
    query = httpx.QueryParams(place)
    (result,) = await facade.command("PUT", f"{PATH}?{query}", body)
    assert result["outcome"] == "applied"
    id: str = result["id"]
    return id


async def delete(facade: Facade, **place: str) -> str:
    """Delete a template; returns the outcome."""
    (result,) = await facade.command("DELETE", f"{PATH}?{httpx.QueryParams(place)}")
    outcome: str = result["outcome"]
    return outcome


async def test_the_best_template_is_in_effect(facade: Facade, http: httpx.AsyncClient) -> None:
    store = new_id("store")
    built_in = await effective(http, storeId=store, languageCode="de-AT")
    assert (built_in["source"], built_in["storeId"], built_in["languageCode"]) == ("built-in", None, None)

    async def subject(**place: str) -> tuple[str, str]:
        found = await effective(http, **{"storeId": store, "languageCode": "de-AT", **place})
        return found["subject"], found["source"]

    try:
        await save(facade, {"subject": "all"})
        assert await subject() == ("all", "all-stores")
        await save(facade, {"subject": "all, de"}, languageCode="de")
        assert await subject() == ("all, de", "all-stores")
        await save(facade, {"subject": "store"}, storeId=store)
        assert await subject() == ("store", "store")
        await save(facade, {"subject": "store, de"}, storeId=store, languageCode="DE")
        assert await subject() == ("store, de", "store")
        id = await save(facade, {"subject": "store, de-AT"}, storeId=store, languageCode="de_at")
        assert id == f"OrderReviewRequest?storeId={store}&languageCode=de-AT"
        assert await subject() == ("store, de-AT", "store")
        assert await subject(languageCode="fr") == ("store", "store")
        assert await subject(storeId=new_id("store")) == ("all, de", "all-stores")
        listed = (await http.get(TEMPLATES)).json()
        assert [t["subject"] for t in listed if t["storeId"] == store] == ["store", "store, de", "store, de-AT"]
        assert [t["source"] for t in listed][:2] == ["built-in", "all-stores"]
        assert await delete(facade, storeId=store, languageCode="de-AT") == "applied"
        assert await delete(facade, storeId=store, languageCode="de-AT") == "unchanged"
        assert await subject() == ("store, de", "store")
    finally:
        for place in ({}, {"languageCode": "de"}):
            await delete(facade, **place)
    assert (await effective(http))["source"] == "built-in"


async def test_a_partial_body_merges_into_what_is_in_effect(facade: Facade, http: httpx.AsyncClient) -> None:
    store = new_id("store")
    built_in = await effective(http)
    await save(facade, {"html": "<p>{{ order.number }}</p>"}, storeId=store)
    await save(facade, {"subject": "Hello {{ customer.name }}", "text": None, "unknown": 1}, storeId=store)
    found = await effective(http, storeId=store)
    assert (found["subject"], found["text"], found["html"]) == (
        "Hello {{ customer.name }}",
        built_in["text"],
        "<p>{{ order.number }}</p>",
    )


@pytest.mark.parametrize(
    ("body", "pointer", "message"),
    [
        ({"html": "<p>\n{{ customer.nam }}</p>"}, "/html", "Line 2: `nam` is not known here; there is: id, name"),
        ({"text": "{% for item in items %}"}, "/text", "Line 1: "),
        ({"subject": "{{ 'x' * 10**9 }}"}, "/subject", "Line 1: "),
        ({"text": "{% include 'x' %}"}, "/text", "Line 1: unexpected tag 'include'"),
        ({"html": HOSTILE["doubling by append"]}, "/html", "Line 1: it takes more than 25000 steps"),
        ({"subject": "ok", "html": ""}, "/html", "Line 1: it comes out empty"),
        ({"text": 1}, "/text", ""),
        ({"text": "x" * 100_001}, "/text", ""),
    ],
    ids=lambda value: str(value)[:40],
)
@pytest.mark.parametrize("preview", [False, True])
async def test_a_template_with_an_error_is_refused(
    http: httpx.AsyncClient, body: Json, pointer: str, message: str, preview: bool
) -> None:
    method, path = ("POST", f"{PATH}/preview") if preview else ("PUT", PATH)
    response = await http.request(method, path, json=body)
    assert response.status_code == 422, response.text
    (error,) = response.json()["errors"]
    assert error["pointer"] == pointer
    assert error["message"].startswith(message)


async def test_requests_that_make_no_sense(http: httpx.AsyncClient) -> None:
    for method, path in [("GET", ""), ("PUT", ""), ("DELETE", ""), ("POST", "/preview")]:
        response = await http.request(method, f"{TEMPLATES}/Nothing{path}", json={})
        assert (response.status_code, response.json()["type"]) == (404, "/problems/not-found")
    for query in ({"languageCode": "not a language"}, {"storeId": "x" * 129}):
        response = await http.get(PATH, params=query)
        assert response.status_code == 422, response.text


async def test_a_preview_shows_sample_data_and_saves_nothing(facade: Facade, http: httpx.AsyncClient) -> None:
    store = new_id("store")
    await facade.command("PUT", f"/api/stores/{store}", {"name": "Foto <Müller>"})

    async def preview(body: Json | None) -> Json:
        response = await http.post(f"{PATH}/preview", params={"storeId": store}, json=body)
        assert response.status_code == 200, response.text
        shown: Json = response.json()
        return shown

    shown = await preview(None)
    assert shown["subject"] == "How do you like what you bought at Foto <Müller>?"
    assert "Foto &lt;Müller&gt;" in shown["html"]
    assert "- Camera" in shown["text"]
    changed = await preview({"subject": "{{ customer.name }}\n\n{{ languageCode }}"})
    assert changed == {**shown, "subject": "Anna Berg en-US"}
    assert (await effective(http, storeId=store))["source"] == "built-in"


async def test_by_kafka_and_a_bad_one_is_a_dead_letter(http: httpx.AsyncClient, service: Service) -> None:
    store = new_id("store")

    def update(**fields: object) -> Message:
        value = {"notificationTemplate": {"name": "OrderReviewRequest", "storeId": store, **fields}}
        return message(value, store)

    wrong = update(html="{{ nothing }}")
    await service.publish("store-updates", update(subject="one"), wrong, update(subject="two"))
    await eventually(lambda: effective(http, storeId=store), lambda found: found["subject"] == "two")
    (letter,) = await service.letters("store-updates", store, 1)
    assert letter.value == wrong.value
    reason = dict(letter.headers)["x-error-message"]
    assert b"notificationTemplate/html: Line 1: `nothing` is not known" in reason


async def test_a_repeated_command_brings_no_deleted_template_back(facade: Facade, http: httpx.AsyncClient) -> None:
    store, key = new_id("store"), {"Idempotency-Key": new_id("key"), **WAIT}
    body = {"subject": "first"}
    first = await http.put(PATH, params={"storeId": store}, json=body, headers=key)
    assert first.status_code == 200
    assert await delete(facade, storeId=store) == "applied"
    again = await http.put(PATH, params={"storeId": store}, json=body, headers=key)
    assert again.json() == first.json()
    assert (await effective(http, storeId=store))["source"] == "built-in"


async def test_a_replay_brings_no_deleted_template_back(service: Service) -> None:
    """The consumer itself, given the same records again: what a rewound consumer group does."""
    store = new_id("store")

    def record(offset: int, **fields: object) -> StoredRecord:
        value = {"notificationTemplate": {"name": "OrderReviewRequest", "storeId": store, **fields}}
        return StoredRecord("store-updates", 0, offset, 1_000 + offset, store.encode(), json.dumps(value).encode(), ())

    records = [record(1, subject="one"), record(2, deleted=True), record(3, subject="three"), record(4, subject="four")]
    client, database = connect(service.servers.mongo, service.database)
    try:
        templates = TemplateRepository(database)
        publisher = Publisher(KafkaConnection(service.servers.kafka))
        consumer = StoreConsumer(Services(database, publisher, TopicNames(service.prefix)))
        inbox = Inbox(Topic.STORE_UPDATES, STORE_UPDATE.validate_json, consumer, publisher.publish, is_slow=True)

        async def subject() -> str | None:
            found = await templates.get(template_id("OrderReviewRequest", store, None))
            return found.template.subject if found else None

        await inbox.deliver(records[:2])
        assert await subject() is None
        await inbox.deliver(records[:1])
        assert await subject() is None
        await inbox.deliver(records)
        assert await subject() == "four"
        await inbox.deliver(records[:3])
        assert await subject() == "four"
    finally:
        await client.close()
