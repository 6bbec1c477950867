"""Notification templates over HTTP and Kafka."""

from functools import partial

import httpx
import pytest

from consumers.inbox import Inbox
from consumers.services import Services
from consumers.stores import StoreConsumer
from domain.templates import template_id
from messaging.dead_letters_replays import replayed_message
from messaging.decoding import PlainRecord
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.publisher import Publisher
from messaging.topics import Topic, TopicNames
from storage.database import connect
from storage.images.files import files_in_memory
from storage.templates import TemplateRepository
from tests.support.facade import Facade, body_of, new_id, once, problem_of
from tests.support.hostile_templates import HOSTILE
from tests.support.messages import Message, message
from tests.support.records import Record
from tests.support.retries import retry_until_decided
from tests.support.service import Json, Service
from tests.support.waiting import eventually

TEMPLATES = "/api/notificationTemplates"
PATH = f"{TEMPLATES}/OrderReviewRequest"


async def effective(http: httpx.AsyncClient, **scope: str) -> Json:
    return body_of(await http.get(PATH, params=scope), dict)


def update(store: str, **fields: object) -> Message:
    """Return a message that updates the template of a store."""
    return message({"notificationTemplate": {"name": "OrderReviewRequest", "storeId": store, **fields}}, store)


async def save(facade: Facade, body: Json, **scope: str) -> str:
    """Save a template; returns its id."""
    query = httpx.QueryParams(scope)
    (result,) = await facade.command("PUT", f"{PATH}?{query}", body)
    assert result["outcome"] == "applied"
    id: str = result["id"]
    return id


async def delete(facade: Facade, **scope: str) -> str:
    """Delete a template; returns the outcome."""
    (result,) = await facade.command("DELETE", f"{PATH}?{httpx.QueryParams(scope)}")
    outcome: str = result["outcome"]
    return outcome


@pytest.mark.long
async def test_most_specific_template_is_effective(facade: Facade, http: httpx.AsyncClient) -> None:
    store = await facade.open_store()
    built_in = await effective(http, storeId=store, languageCode="de-AT")
    assert (built_in["source"], built_in["storeId"], built_in["languageCode"]) == ("built-in", None, None)

    async def subject(**scope: str) -> tuple[str, str]:
        found = await effective(http, **{"storeId": store, "languageCode": "de-AT", **scope})
        return found["subject"], found["source"]

    try:
        scopes = {
            "all": {},
            "all, de": {"languageCode": "de"},
            "store": {"storeId": store},
            "store, de": {"storeId": store, "languageCode": "DE"},
        }
        for text, scope in scopes.items():
            await save(facade, {"subject": text}, **scope)
            assert await subject() == (text, "store" if "storeId" in scope else "all-stores")
        id = await save(facade, {"subject": "store, de-AT"}, storeId=store, languageCode="de_at")
        assert id == f"OrderReviewRequest?storeId={store}&languageCode=de-AT"
        assert await subject() == ("store, de-AT", "store")
        assert await subject(languageCode="fr") == ("store", "store")
        assert await subject(storeId=new_id("store")) == ("all, de", "all-stores")
        listed = await facade.get(TEMPLATES)
        assert [t["subject"] for t in listed if t["storeId"] == store] == ["store", "store, de", "store, de-AT"]
        assert [t["source"] for t in listed][:2] == ["built-in", "all-stores"]
        assert await delete(facade, storeId=store, languageCode="de-AT") == "applied"
        assert await delete(facade, storeId=store, languageCode="de-AT") == "unchanged"
        assert await subject() == ("store, de", "store")
    finally:
        await delete(facade)
        await delete(facade, languageCode="de")
    assert (await effective(http))["source"] == "built-in"


async def test_partial_body_merges_into_effective_template(facade: Facade, http: httpx.AsyncClient) -> None:
    store, built_in = await facade.open_store(), await effective(http)
    html, subject = {"html": "<p>{{ order.number }}</p>"}, {"subject": "Hello {{ customer.name }}"}
    await save(facade, html, storeId=store)
    await save(facade, {**subject, "text": None}, storeId=store)
    found = await effective(http, storeId=store)
    assert {name: found[name] for name in ("subject", "text", "html")} == {**html, **subject, "text": built_in["text"]}


async def test_damaged_template_is_saved_anew_by_the_same_content(
    facade: Facade, http: httpx.AsyncClient, service: Service
) -> None:
    store, content = await facade.open_store(), {"subject": "Hello", "text": "Hello", "html": "<p>Hello</p>"}
    id = await save(facade, content, storeId=store)
    client, database = connect(service.servers.mongo, service.database)
    async with client:
        await database["notificationTemplates"].update_one({"_id": id}, {"$set": {"storeId": 5}})
        assert await save(facade, content, storeId=store) == id
        assert (await effective(http, storeId=store))["source"] == "store"
        stored = await database["notificationTemplates"].find_one({"_id": id})
    assert stored is not None
    assert stored["storeId"] == store


async def test_templates_of_other_stores_are_not_read(
    facade: Facade, http: httpx.AsyncClient, service: Service
) -> None:
    """The other template has missing fields, so reading it would fail."""
    store, other = await facade.open_store(), new_id("template")
    client, database = connect(service.servers.mongo, service.database)
    async with client:
        templates = database["notificationTemplates"]
        await templates.insert_one({"_id": other, "name": "OrderReviewRequest", "storeId": other})
        try:
            await save(facade, {"subject": "Hello"}, storeId=store)
            assert (await effective(http, storeId=store, languageCode="de"))["subject"] == "Hello"
        finally:
            await templates.delete_one({"_id": other})


@pytest.mark.parametrize(
    ("body", "pointer", "message"),
    [
        ({"html": "<p>\n{{ customer.nam }}</p>"}, "/html", "Line 2: `nam` is not known here; available: id, name"),
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
async def test_invalid_template_is_refused(
    http: httpx.AsyncClient, body: Json, pointer: str, message: str, preview: bool
) -> None:
    method, path = ("POST", f"{PATH}/preview") if preview else ("PUT", PATH)
    (error,) = problem_of(await http.request(method, path, json=body), 422)["errors"]
    assert error["pointer"] == pointer
    assert error["message"].startswith(message)


async def test_invalid_requests_are_refused(http: httpx.AsyncClient) -> None:
    for method, path in [("GET", ""), ("PUT", ""), ("DELETE", ""), ("POST", "/preview")]:
        response = await http.request(method, f"{TEMPLATES}/Nothing{path}", json={})
        problem = problem_of(response, 404)
        assert problem["type"] == "/problems/not-found"
        assert problem["detail"] == "There is no such template. Available: OrderReviewRequest."
    for query in ({"languageCode": "not a language"}, {"storeId": "x" * 129}):
        problem_of(await http.get(PATH, params=query), 422)


async def test_unknown_store_has_no_template(facade: Facade, http: httpx.AsyncClient, service: Service) -> None:
    """A misspelt store isn't answered as applied. A record from upstream may come before its store, also if a replay of
    its dead letter gives it a command id."""
    store = new_id("store")
    query = httpx.QueryParams({"storeId": store})
    for method, body in (("PUT", {"subject": "Hello"}), ("DELETE", None)):
        send = partial(http.request, method, f"{PATH}?{query}", json=body, headers=once())
        refused = problem_of(await retry_until_decided(send), 409)
        assert [result["reason"] for result in refused["results"]] == ["unknown-store"]
        assert "register it" in refused["detail"]
    assert (await effective(http, storeId=store))["source"] == "built-in"
    early = update(store, subject="early")
    replayed = replayed_message(Record(topic="plaudit.store-updates.dlq", value=early.value)).value
    assert b"commandId" in (replayed or b"")
    for record in (early, early._replace(value=replayed)):
        await service.publish("store-updates", record)
        await eventually(lambda: effective(http, storeId=store), lambda found: found["subject"] == "early")
        assert await delete(facade, storeId=store) == "applied"


async def test_template_may_follow_its_store_at_once(facade: Facade, http: httpx.AsyncClient) -> None:
    store = new_id("store")
    registered = await http.put(f"/api/stores/{store}", json={"name": "Books"})
    assert registered.status_code == 202
    await save(facade, {"subject": "Hello"}, storeId=store)


async def test_empty_parameters_write_nothing(facade: Facade, http: httpx.AsyncClient) -> None:
    """An unset variable of a script must not mean all stores or all languages."""
    before = await facade.get(TEMPLATES)
    store = new_id("store")
    for query, name in (
        ("storeId=", "storeId"),
        ("STOREID=&languageCode=de", "storeId"),
        ("languageCode=", "languageCode"),
        (f"storeId={store}&languageCode=", "languageCode"),
    ):
        for response in (
            await http.put(f"{PATH}?{query}", json={"subject": "x"}, headers={"Prefer": "wait=10"}),
            await http.delete(f"{PATH}?{query}", headers={"Prefer": "wait=10"}),
        ):
            (error,) = problem_of(response, 422)["errors"]
            assert (error["pointer"], error["code"]) == (f"/{name}", "empty")
            assert error["message"].startswith("Must not be empty; left out, it means all ")
    assert await facade.get(TEMPLATES) == before
    # Reading changes nothing, so that there the parameter may be empty.
    assert body_of(await http.get(f"{PATH}?storeId=&languageCode="), dict)["storeId"] is None


async def test_preview_has_sample_data_and_saves_nothing(facade: Facade, http: httpx.AsyncClient) -> None:
    store = new_id("store")
    await facade.command("PUT", f"/api/stores/{store}", {"name": "Foto <Müller>"})

    async def preview(body: Json | None) -> Json:
        return body_of(await http.post(f"{PATH}/preview", params={"storeId": store}, json=body), dict)

    shown = await preview(None)
    assert shown["subject"] == "How do you like what you bought at Foto <Müller>?"
    assert "Foto &lt;Müller&gt;" in shown["html"]
    assert "- Camera" in shown["text"]
    changed = await preview({"subject": "Hello\n\n{{ customer.name }} {{ languageCode }}"})
    assert changed == {**shown, "subject": "Hello Anna Berg en-US"}
    assert (await effective(http, storeId=store))["source"] == "built-in"
    # Unknown values are omitted, as in a mail.
    contact = {"text": "x{% if store.email %}Write to {{ store.email }}{% endif %}"}
    assert (await preview(contact))["text"] == "x"
    await facade.command("PUT", f"/api/stores/{store}", {"email": "Foto <foto@example.com>"})
    assert (await preview(contact))["text"] == "xWrite to foto@example.com"


async def test_invalid_update_by_kafka_becomes_dead_letter(http: httpx.AsyncClient, service: Service) -> None:
    store = new_id("store")
    wrong = update(store, html="{{ nothing }}")
    await service.publish("store-updates", update(store, subject="one"), wrong, update(store, subject="two"))
    await eventually(lambda: effective(http, storeId=store), lambda found: found["subject"] == "two")
    (letter,) = await service.letters("store-updates", store, 1)
    assert letter.value == wrong.value
    reason = dict(letter.headers)["x-error-message"]
    assert b"notificationTemplate/html: Line 1: `nothing` is not known" in reason


async def test_repeated_command_does_not_restore_template(facade: Facade, http: httpx.AsyncClient) -> None:
    store, key = await facade.open_store(), once()
    send = partial(http.put, PATH, params={"storeId": store}, json={"subject": "first"}, headers=key)
    first = await retry_until_decided(send)
    assert first.status_code == 200
    assert await delete(facade, storeId=store) == "applied"
    assert (await retry_until_decided(send)).json() == first.json()
    assert (await effective(http, storeId=store))["source"] == "built-in"


async def test_replay_does_not_restore_template(service: Service) -> None:
    """Deliver the same records to the consumer again, like after an offset reset."""
    store = new_id("store")

    changes: list[Json] = [{"subject": "one"}, {"deleted": True}, {"subject": "three"}, {"subject": "four"}]
    records = [
        PlainRecord("store-updates", 0, number, 1_000 + number, store.encode(), update(store, **change).value, ())
        for number, change in enumerate(changes, start=1)
    ]
    client, database = connect(service.servers.mongo, service.database)
    async with client:
        templates = TemplateRepository(database)
        publisher = Publisher(KafkaConnection(service.servers.kafka))
        consumer = StoreConsumer(Services(database, publisher, TopicNames(service.prefix), files_in_memory()))
        inbox = Inbox(Topic.STORE_UPDATES, consumer, publisher.publish, is_slow=True)

        async def subject() -> str | None:
            found = await templates.get(template_id("OrderReviewRequest", store, None))
            return found.template.subject if found else None

        for count, expected in ((2, None), (1, None), (4, "four"), (3, "four")):
            await inbox.deliver(records[:count])
            assert await subject() == expected
