"""Moderation rules of a store: their effects on new reviews, on edits, and over time."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any

import httpx
import pytest

from domain.delivery import Seen
from storage.seen import seen_document
from tests.support.facade import REVIEWS, Facade, new_id, once, submission
from tests.support.messages import Message, message, review_message
from tests.support.orders import Returns
from tests.support.retries import retry_until_decided
from tests.support.service import Json, Service
from tests.support.waiting import eventually

RULES: list[Json] = [
    {"id": "words", "kind": "words", "outcome": "hold", "words": ["scam"]},
    {"id": "links", "kind": "links", "outcome": "flag"},
    {"id": "twice", "kind": "duplicate", "outcome": "hold"},
    {"id": "low", "kind": "stars", "outcome": "hold", "below": 2, "publishAfterHours": 1},
    {"id": "good", "kind": "stars", "outcome": "approve", "above": 3},
]
FLAGGING: list[Json] = [{**rule, "outcome": "flag"} if rule["id"] == "low" else rule for rule in RULES]
in_time = pytest.mark.parametrize("rules", [RULES, FLAGGING], ids=["held", "flagged"])


async def state(facade: Facade, id: str) -> tuple[str, list[str], str | None]:
    row = await facade.get(f"{REVIEWS}/{id}")
    return row["reviewStatus"], row["flags"], row["moderator"]


async def audited(facade: Facade, id: str) -> list[tuple[str, str]]:
    entries = (await facade.get("/api/audit", reviewId=id))["results"]
    return sorted((entry["action"], entry["subject"]) for entry in entries)


def review(product: str, rating: float, text: str, store: str, **fields: Any) -> Json:
    return submission(product, rating, storeId=store, review=text, **{"id": new_id("review"), **fields})


@pytest.mark.long
async def test_rules_on_new_reviews(facade: Facade, service: Service, product: str) -> None:
    store = await facade.open_store(moderationRules=RULES)
    good, fair = review(product, 5, "Sharp.", store), review(product, 3, "Fair.", store)
    held, linked = review(product, 5, "A scam: www.x.example", store), review(product, 4, "See https://x.org", store)
    low, copy = review(product, 1, "Broken.", store), review(product, 5, "SHARP. ", store, userId="bert")
    ids = await facade.submit(good, fair, held, linked, low, copy)
    assert [await state(facade, id) for id in ids] == [
        ("Approved", [], "rule:good"),
        ("New", [], None),
        ("New", ["words", "links"], None),
        ("New", ["links"], None),
        ("New", ["low"], None),
        ("New", ["twice"], None),
    ]
    assert await facade.rating(product) == (5.0, 1)
    assert [await audited(facade, id) for id in ids[:3]] == [
        [("approve", "rule:good")],
        [],
        [("flag", "rule:links"), ("hold", "rule:words")],
    ]
    events = await eventually(partial(service.events_about, good["id"]), lambda found: len(found) == 2)
    assert [kind for kind, _ in events] == ["ReviewSubmitted", "ReviewApproved"]
    _, approval = events[1]
    assert approval == {
        **{"reviewId": good["id"], "entityType": "Product", "entityId": product, "storeId": store},
        "at": approval["at"],
        **{"statusBefore": "New", "status": "Approved", "moderator": "rule:good", "reason": None, "reasonCode": None},
    }
    ((kind, event),) = await eventually(partial(service.events_about, held["id"]))
    assert (kind, event["flags"]) == ("ReviewSubmitted", ["words", "links"])
    await service.replay(*map(review_message, (good, fair, held, linked, low, copy)))
    assert [(await state(facade, id))[0] for id in ids] == ["Approved", "New", "New", "New", "New", "New"]
    assert await facade.rating(product) == (5.0, 1)
    assert await service.events_about(good["id"]) == events
    assert await audited(facade, good["id"]) == [("approve", "rule:good")]


@pytest.mark.long
async def test_flags_are_explained_by_matches_in_the_text(
    facade: Facade, http: httpx.AsyncClient, service: Service, product: str
) -> None:
    """The explanation goes to API callers and appears beside the review in the console, by the current rules."""
    store = await facade.open_store(moderationRules=RULES)
    first = review(product, 3, "A scam, <b>SCAM</b>: see www.x.example/a", store)
    again = {**first, "id": new_id("review"), "userId": "bert", "rating": 1}
    await facade.submit(first, again)
    words = {"flag": "words", "kind": "words", "found": ["scam"], "duplicateOf": None}
    links = {"flag": "links", "kind": "links", "found": ["www.x.example/a"], "duplicateOf": None}
    assert (await facade.get(f"{REVIEWS}/{first['id']}/flags"))["results"] == [words, links]
    flags = (await facade.get(f"{REVIEWS}/{again['id']}/flags"))["results"]
    assert flags == [
        words,
        links,
        {"flag": "twice", "kind": "duplicate", "found": [], "duplicateOf": first["id"]},
        {"flag": "low", "kind": "stars", "found": [], "duplicateOf": None},
    ]
    context = (await http.get(f"/console/reviews/{again['id']}/context")).text
    assert "www.x.example/a" in context
    assert f'href="/console/reviews/{first["id"]}"' in context
    await facade.open_store(store, moderationRules=[RULES[1]])
    gone: Json = {"flag": "words", "kind": None, "found": [], "duplicateOf": None}
    assert (await facade.get(f"{REVIEWS}/{first['id']}/flags"))["results"] == [gone, links]


async def test_verified_rule_uses_orders_without_required_purchase(
    facade: Facade, returns: Returns, product: str
) -> None:
    rules: list[Json] = [
        {"id": "buyers", "kind": "verified", "outcome": "approve"},
        {"id": "others", "kind": "verified", "outcome": "hold"},
    ]
    store, customer = await facade.open_store(moderationRules=rules), new_id("customer")
    await returns.ordered({product: 1}, storeId=store, customerId=customer)
    bought, not_bought = (review(product, 5, "Sharp.", store, userId=author) for author in (customer, "anna"))
    await facade.submit(bought, not_bought)
    assert await state(facade, bought["id"]) == ("Approved", [], "rule:buyers")
    assert await state(facade, not_bought["id"]) == ("New", ["others"], None)


async def test_rules_are_applied_again_to_edits(facade: Facade, service: Service, product: str) -> None:
    store = await facade.open_store(moderationRules=RULES)
    first = review(product, 5, "Sharp.", store)
    await facade.submit(first)
    for text, rating, expected in (
        ("A scam!", 5, ("New", ["words"], None)),
        ("Well, no.", 5, ("Approved", [], "rule:good")),
        ("Well, no.", 4, ("Approved", [], "rule:good")),
        ("Fair.", 3, ("New", [], None)),
    ):
        await facade.submit({**first, "review": text, "rating": rating})
        assert await state(facade, first["id"]) == expected
        assert await facade.rating(product) == ((rating, 1) if expected[0] == "Approved" else (0, 0))
    kinds = [
        kind for kind, _ in await eventually(partial(service.events_about, first["id"]), lambda found: len(found) == 8)
    ]
    edits = ["ReviewEdited", "ReviewEdited", "ReviewApproved", "ReviewEdited", "ReviewApproved", "ReviewEdited"]
    assert kinds == ["ReviewSubmitted", "ReviewApproved", *edits]
    # The first text can be used again.
    (other,) = await facade.submit(review(product, 5, "Sharp.", store, userId="bert"))
    assert await state(facade, other) == ("Approved", [], "rule:good")


async def test_held_edit_is_reset_even_if_edits_keep_status(facade: Facade, product: str) -> None:
    store = await facade.open_store(moderationRules=RULES, editsKeepStatus=True)
    first = review(product, 5, "Sharp.", store)
    await facade.submit(first)
    await facade.submit({**first, "review": "See www.x.org"})
    assert await state(facade, first["id"]) == ("Approved", ["links"], "rule:good")
    await facade.submit({**first, "review": "A scam"})
    assert await state(facade, first["id"]) == ("New", ["words"], None)
    assert await facade.rating(product) == (0, 0)


@pytest.mark.long
@in_time
async def test_low_rated_review_is_published_after_delay(
    facade: Facade, service: Service, product: str, rules: list[Json]
) -> None:
    store = await facade.open_store(moderationRules=rules)
    texts = ("Broken.", "See https://x.org", "It broke.", "It fell.", "Slow.", "Odd.", "Poor.", "Bad.")
    low, linked, decided, edited, again, old, left, kept = (review(product, 1, text, store) for text in texts)
    ids = await facade.submit(low, linked, decided, edited, again, old, left, kept)
    # A decision that is refused has no effect.
    path = f"{REVIEWS}/reject?expectedStatus=Approved"
    refused = await retry_until_decided(partial(facade.http.post, path, json=[low["id"]], headers=once()))
    assert refused.status_code == 409
    await facade.moderate("approve", decided["id"], again["id"])
    await facade.moderate("reset", decided["id"])
    # A moderator who leaves it New has decided, too, and that is logged.
    assert await facade.moderate("reset", kept["id"]) == ["unchanged"]
    latest, *_ = (await facade.get("/api/audit", reviewId=kept["id"]))["results"]
    assert latest["action"] == "reset"
    # A second such reset ends nothing.
    assert await facade.moderate("reset", kept["id"]) == ["unchanged"]
    assert [action for action, _ in await audited(facade, kept["id"])].count("reset") == 1
    await facade.submit({**edited, "rating": 3}, {**again, "review": "Slow, and loud."})
    async with service.mongo() as database:
        planned = {document["_id"] async for document in database["publications"].find({"_id": {"$in": ids}})}
        assert planned == {low["id"], again["id"], old["id"], left["id"]}
        # As left by a decision of an earlier version: with the marks from before it.
        marks = seen_document(Seen({0: (1, 1)}))
        await database["publications"].update_one({"_id": left["id"]}, {"$set": {"seen": marks}})
        hour_ago = datetime.now(UTC) - timedelta(hours=1)
        await database["publications"].update_many({"_id": {"$in": ids}}, {"$set": {"at": hour_ago}})
        await eventually(partial(database["publications"].count_documents, {"_id": {"$in": ids}}), lambda n: n == 0)
    await facade.until_rated(product, 1.0, 3)
    assert (await state(facade, left["id"]))[0] == "New"
    assert await state(facade, low["id"]) == ("Approved", ["low"], "rule:low")
    # Nobody has decided on it since its author edited it.
    assert await state(facade, again["id"]) == ("Approved", ["low"], "rule:low")
    assert (await state(facade, decided["id"]))[0] == "New"
    assert await audited(facade, low["id"]) == sorted([("approve", "rule:low"), (rules[3]["outcome"], "rule:low")])


@pytest.mark.long
async def test_unreadable_review_does_not_block_publication_of_others(
    facade: Facade, service: Service, product: str
) -> None:
    store = await facade.open_store(moderationRules=RULES)
    low, damaged = review(product, 1, "Broken.", store), review(product, 1, "It broke.", store)
    ids = await facade.submit(low, damaged)
    async with service.mongo() as database:
        await database["reviews"].update_one({"_id": damaged["id"]}, {"$set": {"status": 7}})
        hour_ago = datetime.now(UTC) - timedelta(hours=1)
        await database["publications"].update_many({"_id": {"$in": ids}}, {"$set": {"at": hour_ago}})
        await facade.until_rated(product, 1.0, 1)
        assert await database["publications"].count_documents({"_id": damaged["id"]}) == 1
        await database["reviews"].update_one({"_id": damaged["id"]}, {"$set": {"status": 0}})
    await facade.until_rated(product, 1.0, 2)


@pytest.mark.long
@in_time
async def test_edit_cancels_planned_approval_even_after_rules_are_removed(
    facade: Facade, service: Service, product: str, rules: list[Json]
) -> None:
    store = await facade.open_store(moderationRules=rules)
    edited, mended, left = (review(product, 1, text, store) for text in ("Broken.", "It broke.", "It fell."))
    ids = await facade.submit(edited, mended, left)
    await facade.open_store(store, moderationRules=[])
    await facade.submit({**edited, "review": "Quite another text."})
    await facade.submit({**mended, "userId": None, "review": "It broke soon."})  # by a moderator, who has seen it
    async with service.mongo() as database:
        hour_ago = datetime.now(UTC) - timedelta(hours=1)
        await database["publications"].update_many({"_id": {"$in": ids}}, {"$set": {"at": hour_ago}})
        await eventually(partial(database["publications"].count_documents, {"_id": {"$in": ids}}), lambda n: n == 0)
    await facade.until_rated(product, 1.0, 2)
    assert [(await state(facade, id))[0] for id in ids] == ["New", "Approved", "Approved"]


async def test_objection_to_text_stands_when_rating_changes(facade: Facade, service: Service, product: str) -> None:
    low = review(product, 1, "Broken.", await facade.open_store(moderationRules=RULES))
    await facade.submit(low)
    flagging = {"reviewId": low["id"], "textHash": hash_of(low), "source": "ai", "verdict": "flag"}
    await service.publish("moderation-verdicts", message(flagging, low["id"]))
    await eventually(partial(state, facade, low["id"]), lambda found: found[1] == ["low", "verdict:ai"])
    await facade.submit({**low, "rating": 1.5})
    assert await state(facade, low["id"]) == ("New", ["low", "verdict:ai"], None)
    async with service.mongo() as database:
        assert await database["publications"].find_one({"_id": low["id"]}) is None


async def test_language_named_by_visitor_is_not_trusted(facade: Facade, service: Service, product: str) -> None:
    english = [{"id": "english", "kind": "languages", "outcome": "approve", "languages": ["en"]}]
    store = await facade.open_store(moderationRules=english)
    foreign = "Eine großartige Kamera, ich würde sie jederzeit wieder kaufen"
    own = "A great camera, I would buy it again at any time"
    cases = [
        (foreign, "widget", "en"),
        (own, "widget", "en-US"),
        ("Sehr gut", "widget", "en"),
        (foreign, "api", "en"),
    ]
    reviews = [review(product, 4, text, store, title=None, via=via, language=each) for text, via, each in cases]
    await service.publish("review-submissions", *map(review_message, reviews))
    await facade.until_rated(product, 4.0, 2)
    ids = [each["id"] for each in reviews]
    assert [(await state(facade, id))[0] for id in ids] == ["New", "Approved", "New", "Approved"]
    await service.publish("review-submissions", review_message({**reviews[1], "review": foreign}))
    await facade.until_rated(product, 4.0, 1)
    assert (await state(facade, ids[1]))[0] == "New"


async def test_verdicts_of_a_classifier(facade: Facade, service: Service, product: str) -> None:
    store = await facade.open_store(moderationRules=RULES)
    fair, held, late = (review(product, 3, text, store) for text in ("Fair.", "A scam.", "So so."))
    await facade.submit(fair, held)

    def verdict(about: Json, outcome: str, **fields: Any) -> Message:
        value = {"reviewId": about["id"], "textHash": hash_of(about), "source": "ai", "verdict": outcome, **fields}
        return message(value, about["id"])

    early = verdict(late, "approve")
    await service.publish("moderation-verdicts", verdict(held, "approve"), verdict(fair, "approve"), early)
    await facade.until_rated(product, 3.0, 1)
    assert await state(facade, fair["id"]) == ("Approved", [], "verdict:ai")
    assert await state(facade, held["id"]) == ("New", ["words"], None)
    await facade.submit(late)
    await facade.until_rated(product, 3.0, 2)
    await facade.moderate("reset", late["id"])
    assert await state(facade, late["id"]) == ("New", [], None)
    await facade.submit({**fair, "review": "Fair enough."})
    objection = verdict({**fair, "review": "Fair enough."}, "flag", labels=["spam", "bot"], score=0.93)
    await service.publish("moderation-verdicts", early, verdict(fair, "hold"), objection)
    await eventually(partial(state, facade, fair["id"]), lambda found: found[1] != [])
    assert await state(facade, fair["id"]) == ("New", ["verdict:ai"], None)
    # The same verdict in another record is a new one, about a review that is New again.
    await facade.until_rated(product, 3.0, 1)
    assert await state(facade, late["id"]) == ("Approved", [], "verdict:ai")
    assert [action for action, _ in await audited(facade, late["id"])] == ["approve", "approve", "reset"]
    entries = (await facade.get("/api/audit", reviewId=fair["id"]))["results"]
    assert [(e["action"], e["reason"]) for e in entries if e["subject"] == "verdict:ai"] == [
        ("flag", "spam, bot (0.93)"),
        ("approve", None),
    ]


def hash_of(review: Json) -> str:
    """Return the hash of a review's text as documented."""
    return sha256(f"{review['title']}\n{review['review']}".encode()).hexdigest()


async def test_rules_can_be_tried_on_a_file(facade: Facade, service: Service, product: str) -> None:
    store = await facade.open_store(moderationRules=RULES)
    file = service.folder / "tried.jsonl"
    file.write_text(json.dumps(review(product, 3, "A scam.", store, id="tried")) + "\n")
    tried = await service.run("rules", "try", str(file), "--store", store)
    assert "tried: held by words" in tried.stdout
    other = new_id("store")
    unknown = await service.run("rules", "try", str(file), "--store", other, code=1)
    assert f"There is no store {other}. The stores are: " in " ".join(unknown.stderr.split())
