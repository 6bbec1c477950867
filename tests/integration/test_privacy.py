"""What is kept of a person: shown to them, and removed, so that ratings stay right."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from storage.mails import MailRepository, StoredRecord
from tests.support.facade import facade_of, new_id, submission
from tests.support.messages import Message, message
from tests.support.orders import Returns, lines_of, return_command
from tests.support.service import Json, Servers, Service
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

EMAIL, STREET, WORDS = "anna.berg@example.com", "Lindenallee 7", "Nobody else would put it like this"


async def _everything(service: Service) -> str:
    """All that the database holds, as text."""
    async with service.mongo() as database:
        return "\n".join(
            [
                str(document)
                for name in await database.list_collection_names()
                async for document in database[name].find()
            ]
        )


async def test_a_person_is_shown_and_forgotten(own_service: Service) -> None:
    anna, berta, product = new_id("anna"), new_id("berta"), new_id()
    async with facade_of(own_service) as facade:
        returns = Returns(own_service, facade.http)
        store = await facade.open_store()
        mine = await facade.submit(
            submission(product, 1, userId=anna, userName="Anna Berg", review=WORDS),
            submission(product, 2, userId=anna, userName="Anna Berg", review=WORDS, storeId=store),
        )
        others = await facade.submit(submission(product, 5, userId=berta, userName="Berta Holm"))
        await facade.moderate("approve", *mine, *others)
        order = await returns.ordered(
            {"line": 5}, customerId=anna, customerName="Anna Berg", customerEmail=EMAIL, address={"street": STREET}
        )
        given_back = await returns.create(order, {"line": 2})
        await returns.change(given_back, resolution=WORDS)
        bad = json.dumps(submission(product, 9, userId=anna, review=WORDS)).encode()
        await own_service.publish("review-submissions", Message(None, bad))
        await eventually(own_service.dead_letters, lambda letters: len(letters) == 1)
        await _mail_to(own_service, anna)

        shown = await own_service.run("privacy", "export", "--customer", anna)
        document = json.loads(shown.stdout)
        assert {review["id"] for review in document["reviews"]} == set(mine)
        assert [each["address"] for each in document["orders"]] == [{"street": STREET}]
        assert [each["resolution"] for each in document["returns"]] == [WORDS]
        assert [letter["value"]["userId"] for letter in document["deadLetters"]] == [anna]
        assert document["mailsNotSentYet"] == [{"to": EMAIL}]
        assert berta not in shown.stdout

        erased = await own_service.run("privacy", "erase", "--customer", anna, "--yes")
        assert "1 dead letters" in erased.stdout
        everything = await _everything(own_service)
        for trace in (anna, "Anna Berg", EMAIL, STREET, WORDS):
            assert trace not in everything
        # What is others', and what the shop has to count, is as it was.
        assert await facade.listed(entityIds=[product]) == others
        assert [(r["value"], r["reviewCount"]) for r in await facade.ratings(product)] == [(5.0, 1)]
        assert await returns.available(order) == {"line": 3}
        assert ((await returns.get(given_back)) or {})["order"]["items"][0]["quantity"] == 5
        await own_service.run("ratings", "verify")

        # It is on record, without the name; and nothing of it comes back.
        async with own_service.mongo() as database:
            (record,) = await database["erasures"].find().to_list()
            assert record["counts"] == {
                "reviews": 2,
                "orders": 1,
                "returns": 1,
                "mails": 1,
                "reminders": 2,
                "waiting": 0,
            }
        audit: Json = (await facade.http.get("/api/audit", params={"action": "delete"})).json()
        assert {(entry["subject"], entry["reviewId"]) for entry in audit["results"]} == {
            ("plaudit privacy", id) for id in mine
        }
        replayed = await own_service.run("dlq", "replay")
        assert "Replayed 0 dead letters" in replayed.stdout
        assert "1 are about people who were forgotten" in replayed.stdout
        again = await own_service.run("privacy", "erase", "--customer", anna, "--yes")
        assert "Deleted 0 reviews" in again.stdout


LETTERS = ("review-submissions", "order-events", "return-commands")


async def _letters(service: Service, count: int) -> None:
    async def letters() -> int:
        return sum([len(await service.records(f"{topic}.dlq")) for topic in LETTERS])

    await eventually(letters, lambda found: found == count)


async def test_it_is_found_in_every_shape_and_place(own_service: Service) -> None:
    number = random.randrange(10**9, 10**10)
    anna, berta, later = str(number), f"{number}0", new_id("order")
    async with own_service.client() as http:
        returns = Returns(own_service, http)
        order = await returns.ordered({"line": 5}, customerId=anna)
        # Hers: by a number, by her order alone, deep within, cut off.
        await own_service.publish(
            "review-submissions",
            message(submission("x", userId=number, review=WORDS)),
            Message(None, f'{{"userId": "{anna}", "review": "{WORDS}'.encode()),
        )
        await own_service.publish("order-events", message({"order": {"customer": {"id": number}}}))
        await own_service.publish("return-commands", return_command("create", {"orderId": order, "resolution": WORDS}))
        # Others': whatever else has her number, and an id that begins like hers.
        await own_service.publish(
            "review-submissions",
            message(submission(anna, 9, userId=berta)),
            Message(None, f'{{"userId": "{berta}", "rating": 5'.encode()),
        )
        await _letters(own_service, 6)
        # Commands that wait for what they are about.
        await own_service.publish(
            "return-commands",
            return_command(
                "create", {"orderId": later, "resolution": WORDS, "lineItems": lines_of({"line": 2})}, user=anna
            ),
        )
        waiting = json.dumps({"action": "approve", "ids": [new_id()], "moderator": anna}).encode()
        await own_service.publish("moderation-commands", Message(None, waiting))
        async with own_service.mongo() as database:

            async def parked() -> int:
                return sum([await database[name].count_documents({}) for name in ("parkedReturns", "parkedCommands")])

            await eventually(parked, lambda found: found == 2)

        shown = json.loads((await own_service.run("privacy", "export", "--customer", anna)).stdout)
        assert len(shown["deadLetters"]) == 4
        assert berta not in json.dumps(shown)
        assert [each["return"]["resolution"] for each in shown["waitingReturns"]] == [WORDS]
        assert [each["moderator"] for each in shown["waitingModeration"]] == [anna]

        erased = await own_service.run("privacy", "erase", "--customer", anna, "--yes")
        assert "4 dead letters" in erased.stdout
        assert "2 commands that wait" in erased.stdout
        everything = await _everything(own_service)
        for trace in (anna, WORDS):
            assert trace not in everything
        assert hashlib.sha256(anna.encode()).hexdigest() not in everything
        replayed = await own_service.run("dlq", "replay")
        assert "Replayed 2 dead letters" in replayed.stdout, replayed.stdout + replayed.stderr
        assert "4 are about people who were forgotten" in replayed.stdout

        # What was acknowledged takes effect all the same, without her words and name.
        await returns.ordered({"line": 5}, id=later)
        await eventually(lambda: returns.available(later), lambda left: left == {"line": 3})
        assert WORDS not in await _everything(own_service)


async def test_whoever_was_forgotten_is_known_by_any_mark(own_service: Service) -> None:
    """By a mark of an earlier version, by the database's own key, and by one of the configuration."""
    people = [new_id(name) for name in ("plain", "own", "configured")]
    await own_service.publish(
        "return-commands", *(Message(None, f'{{"user": "{person}", "action'.encode()) for person in people)
    )
    await _letters(own_service, 3)
    async with own_service.mongo() as database:
        plain = hashlib.sha256(people[0].encode()).hexdigest()
        await database["erasures"].insert_one({"mark": plain, "at": datetime.now(UTC), "counts": {}})
        await own_service.run("privacy", "erase", "--customer", people[1], "--yes")
        key = "k" * 32
        own_service.environment["PLAUDIT_PRIVACY__ERASURE_KEY"] = key
        await own_service.run("privacy", "erase", "--customer", people[2], "--yes")
        marks = [document["mark"] async for document in database["erasures"].find().sort("at")]
        assert len(set(marks)) == 3
        assert marks[2] == hmac.digest(key.encode(), people[2].encode(), "sha256").hex()
        assert hashlib.sha256(people[1].encode()).hexdigest() not in marks
        # Also of what came among the letters after it had been looked for.
        await database["erasedLetters"].delete_many({})
    replayed = await own_service.run("dlq", "replay", "--dry-run")
    assert "3 are about people who were forgotten" in replayed.stdout, replayed.stdout + replayed.stderr
    assert key not in (await own_service.run("config")).stdout


async def _mail_to(service: Service, customer: str) -> None:
    """A mail that no mailer has sent yet, and the count of those before it."""
    async with service.mongo() as database:
        record = StoredRecord("mail-commands", 0, 0, 0, customer.encode(), json.dumps({"to": EMAIL}).encode(), [])
        await MailRepository(database).accept({"mail": record}, datetime.now(UTC))
        await database["reminderCustomers"].insert_one({"_id": customer, "sent": 2})


async def test_nothing_is_said_to_be_done_that_is_not(own_service: Service, tmp_path: Path) -> None:
    anna = new_id("anna")
    async with facade_of(own_service) as facade:
        await facade.submit(submission(new_id(), userId=anna))
        await own_service.stop("worker")
        ended = await own_service.run("privacy", "erase", "--customer", anna, "--yes", "--wait", "1", code=1)
        assert "is a worker running?" in ended.stderr
        async with own_service.mongo() as database:
            assert await database["erasures"].count_documents({}) == 0
        own_service.start("worker")
        await own_service.run("privacy", "erase", "--customer", anna, "--yes")
        file = tmp_path / "anna.json"
        await own_service.run("privacy", "export", "--customer", anna, "-o", str(file))
        assert json.loads(file.read_bytes())["reviews"] == []


async def test_it_asks_first(servers: Servers, tmp_path: Path) -> None:
    ended = await Service(servers, tmp_path).run("privacy", "erase", "--customer", "anna", code=1)
    assert "Aborted" in ended.stderr + ended.stdout
