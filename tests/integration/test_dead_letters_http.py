"""Dead letters over HTTP: listed, read, tried and replayed; and the health of the service."""

import json
from functools import partial
from time import monotonic
from typing import Any, Final

import httpx
import pytest

from tests.support.facade import WAIT, Facade, body_of, errors_of, new_id, once, problem_of, submission
from tests.support.final_responses import follow
from tests.support.messages import Message
from tests.support.service import Json, Servers, Service
from tests.support.waiting import eventually, free_port

LETTERS = "/api/deadLetters"
TOPIC = "review-submissions"
SEARCH_S: Final = 4.0
"""Seconds that the search of a page may take; later matches are on the next page."""


async def publish_invalid(service: Service, product: str, *reviews: Json, **headers: bytes) -> list[str]:
    """Publish submissions that can't be read; returns the places of their letters, oldest first."""
    values = [json.dumps(review).encode() for review in reviews]
    await service.publish(TOPIC, *(Message(product, value, list(headers.items())) for value in values))
    letters = await service.letters(TOPIC, product, len(values))
    return [f"{TOPIC}/{letter.partition}/{letter.offset}" for letter in letters]


async def listed(http: httpx.AsyncClient, **query: Any) -> Json:
    return body_of(await http.get(LETTERS, params=query), dict)


async def all_listed(http: httpx.AsyncClient, **query: Any) -> list[Json]:
    """Return the rows of all pages."""
    page = await listed(http, take=200, **query)
    found = list(page["results"])
    while page["next"] is not None:
        page = await listed(http, take=200, **query, after=page["next"])
        found += page["results"]
    return found


async def dry_run(http: httpx.AsyncClient, place: str, **more: Any) -> Json:
    body = {"places": [place], "dryRun": True, **more}
    (result,) = body_of(await http.post(f"{LETTERS}/replay", json=body), dict)["results"]
    assert result["id"] == place
    return {name: value for name, value in result.items() if name != "id"}


async def test_letter_is_found_tried_corrected_and_replayed_once(
    facade: Facade, service: Service, http: httpx.AsyncClient, product: str
) -> None:
    review = submission(product)
    (place,) = await publish_invalid(service, product, {**review, "rating": 9}, trace=b"\xff")
    row = next(row for row in await all_listed(http, topic=TOPIC) if row["place"] == place)
    assert (row["code"], row["key"], row["replayed"], row["replayedFrom"]) == ("invalid-message", product, 0, None)
    assert json.loads(row["value"])["rating"] == 9
    assert "/rating" in row["reason"]
    letter = await facade.get(f"{LETTERS}/{place}")
    assert ["trace", "\\xff"] in letter["headers"]
    assert [error["pointer"] for error in letter["refusal"]["errors"]] == ["/rating"]

    as_it_is = await dry_run(http, place)
    assert (as_it_is["outcome"], as_it_is["refusal"]["code"]) == ("applied", "invalid-message")
    corrected = json.dumps(review)
    assert await dry_run(http, place, value=corrected) == {"outcome": "applied", "refusal": None}
    assert await facade.listed(entityIds=[product]) == []

    replay = {"places": [place, place], "value": corrected}
    headers = once()
    first = await facade.command("POST", f"{LETTERS}/replay", replay, headers)
    assert first == await facade.command("POST", f"{LETTERS}/replay", replay, headers)
    assert first == [{"id": place, "outcome": "applied"}]
    await facade.until_listed(product, 1)
    (again,) = await facade.command("POST", f"{LETTERS}/replay", {"places": [place]})
    assert (again["outcome"], again["reason"]) == ("unchanged", "replayed-before")
    assert (await dry_run(http, place))["reason"] == "replayed-before"
    assert (await facade.get(f"{LETTERS}/{place}"))["replayed"] == 1
    result = await service.run("dlq", "replay", "--topic", TOPIC)
    assert " already replayed." in result.stdout
    replayed = [record for record in await service.keyed(TOPIC, product) if "x-replayed-from" in dict(record.headers)]
    assert [json.loads(record.value) for record in replayed] == [review]
    (entry,) = [
        e for e in (await facade.get("/api/audit", action="replay", take="1000"))["results"] if e["letter"] == place
    ]
    assert (entry["subject"], entry["fields"], entry["reviewId"]) == (None, ["value"], None)


async def test_letters_of_a_key_are_replayed_in_order(facade: Facade, service: Service, product: str) -> None:
    places = await publish_invalid(service, product, *({"number": number} for number in range(6)))
    results = await facade.command("POST", f"{LETTERS}/replay", {"places": places[2::-1]})
    assert [(each["id"], each["outcome"]) for each in results] == [(place, "applied") for place in places[2::-1]]
    await service.run("dlq", "replay", *places[:2:-1])
    replayed = [record for record in await service.keyed(TOPIC, product) if "x-replayed-from" in dict(record.headers)]
    assert [json.loads(record.value)["number"] for record in replayed] == list(range(6))


async def places_in(service: Service) -> set[str]:
    """Return the places of all existing letters."""
    return {f"{TOPIC}/{each.partition}/{each.offset}" for each in await service.records(f"{TOPIC}.dlq")}


@pytest.mark.long
async def test_pages_continue_after_the_previous_one(service: Service, http: httpx.AsyncClient) -> None:
    keys = [new_id() for _ in range(8)]
    places = [(await publish_invalid(service, key, {"number": number}))[0] for number, key in enumerate(keys)]
    await service.publish("store-updates", Message(new_id("store"), b"no JSON"))
    await eventually(partial(listed, http, topic="store-updates", code="invalid-json"), lambda page: page["results"])

    before = await places_in(service)
    seen: list[Json] = []
    query: Json = {"topic": TOPIC, "take": 3}
    while True:
        began = monotonic()
        page = await listed(http, **query)
        seen += page["results"]
        if page["next"] is None:
            break
        assert len(page["results"]) == 3 or monotonic() - began > SEARCH_S
        query["after"] = page["next"]
    assert [row["place"] for row in seen if row["key"] in keys] == places[::-1]
    assert len({row["place"] for row in seen}) == len(seen)
    # Replays of other tests may add letters meanwhile.
    assert before <= {row["place"] for row in seen} <= await places_in(service)
    assert {row["topic"] for row in await all_listed(http)} >= {TOPIC, "store-updates"}
    assert {row["code"] for row in await all_listed(http, code="invalid-json")} == {"invalid-json"}


@pytest.mark.long
async def test_letters_with_unusual_values(service: Service, http: httpx.AsyncClient, product: str) -> None:
    large = b'{"review": "' + b"x" * 2 * 1024 * 1024
    await service.publish(TOPIC, Message(product, None), Message(product, b"\xff\xfe\0"), Message(product, large))
    letters = await service.letters(TOPIC, product, 3)
    empty, odd, too_large = (f"{TOPIC}/{letter.partition}/{letter.offset}" for letter in letters)
    rows = {row["place"]: row for row in await all_listed(http, topic=TOPIC)}
    assert rows[empty]["value"] is None
    assert rows[odd]["value"] == "\\xff\\xfe\0"
    assert (len(rows[too_large]["value"]), rows[too_large]["valueBytes"]) == (4096, len(large))
    shown = body_of(await http.get(f"{LETTERS}/{too_large}"), dict)
    assert len(shown["value"]) == 1024 * 1024
    results = {}
    for place in (empty, odd, too_large):
        result = await dry_run(http, place)
        results[place] = (result["outcome"], result.get("reason"), result["refusal"]["code"])
    assert results == {
        empty: ("refused", "empty", "empty"),
        odd: ("applied", None, "invalid-json"),
        too_large: ("refused", "too-large", "too-large"),
    }
    sent = await http.post(f"{LETTERS}/replay", json={"places": [empty, too_large]}, headers=WAIT)
    answer = await follow(http, sent)
    assert answer["outcome"] == "refused"
    assert [result["reason"] for result in answer["results"]] == ["empty", "too-large"]


async def test_places_without_letter_are_not_found(http: httpx.AsyncClient, facade: Facade) -> None:
    nowhere = [f"{TOPIC}/0/999999", f"{TOPIC}/99/0"]
    for place in (*nowhere, "events/0/0", f"{TOPIC}/0/-1"):
        problem_of(await http.get(f"{LETTERS}/{place}"), 404)
    for place in nowhere:
        assert await dry_run(http, place) == {"outcome": "not-found"}
    sent = await http.post(f"{LETTERS}/replay", json={"places": nowhere}, headers=WAIT)
    answer = await follow(http, sent)
    assert answer["outcome"] == "refused"
    assert [result["outcome"] for result in answer["results"]] == ["not-found", "not-found"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"places": []}, ("/places", "too-short")),
        ({"places": ["events/0/0"]}, ("/places/0", "invalid-place")),
        ({"places": ["mail-commands/0/99999999999999999999"]}, ("/places/0", "invalid-place")),
        ({"places": ["mail-commands/0/1", "mail-commands/0/2"], "value": "{}"}, ("/value", "one-place")),
    ],
)
async def test_invalid_dead_letter_replays_are_refused(
    http: httpx.AsyncClient, body: Json, error: tuple[str, str]
) -> None:
    assert errors_of(await http.post(f"{LETTERS}/replay", json=body)) == [error]


@pytest.mark.parametrize("after", ["x", "events~0.1", "mail-commands", "mail-commands~0", "mail-commands~0.1_"])
async def test_invalid_page_cursors_are_refused(http: httpx.AsyncClient, after: str) -> None:
    assert errors_of(await http.get(LETTERS, params={"after": after})) == [("/after", "invalid-after")]


async def details(http: httpx.AsyncClient) -> Json:
    return body_of(await http.get("/api/health/details"), dict)


@pytest.mark.long
async def test_health_has_all_parts(http: httpx.AsyncClient, service: Service) -> None:
    expected = {"mongodb", "replica set", "indexes", "outbox", "kafka", "topics", "lag", "dead letters"}

    def is_whole(health: Json) -> bool:
        """Return False while a server hasn't reported within its timeout, which the answer shows as null, or the lag is
        that of an API which started before its topics were there."""
        is_reported = None not in (health["lag"], health["parked"], health["outbox"])
        return is_reported and bool(health["lag"]) and expected <= {check["check"] for check in health["checks"]}

    health = await eventually(partial(details, http), is_whole)
    checks = {check["check"]: check for check in health["checks"]}
    assert all(check["advice"] for check in checks.values() if check["level"] != "ok")
    assert {"topic": TOPIC, "group": service.topic(TOPIC)}.items() <= next(
        lag for lag in health["lag"] if lag["topic"] == TOPIC
    ).items()
    assert set(health["parked"]) == {"reviews", "returns", "verdicts"}
    assert isinstance(health["outbox"], int)


async def test_unavailable_server_is_part_of_health(service: Service, servers: Servers) -> None:
    away = Servers(f"127.0.0.1:{free_port()}", servers.mongo, is_tansu=servers.is_tansu)
    without_kafka = Service(away, service.folder, prefix=service.prefix)
    without_kafka.start("api", "api-alone")
    try:
        async with without_kafka.client() as http:

            async def answer() -> Json | None:
                try:
                    return await details(http)
                except httpx.TransportError:
                    return None

            # The values from MongoDB are there once its own check was in time.
            health = await eventually(answer, lambda found: found is not None and found["outbox"] is not None)
            assert health is not None
            assert (health["level"], health["lag"]) == ("fail", None)
            (kafka,) = [check for check in health["checks"] if check["check"] == "kafka"]
            assert kafka["level"] == "fail"
            assert "does not answer" in kafka["text"]
            problem_of(await http.get(LETTERS), 503)
    finally:
        await without_kafka.stop("api-alone")
