"""Personal data: exported and erased, with ratings kept right."""

import hashlib
import hmac
import json
import random
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from domain.review_tokens import ReviewToken
from domain.timestamps import moment_in, timestamp
from messaging.decoding import PlainRecord
from storage.database import in_transaction
from storage.mails import MailRepository
from storage.review_tokens import ReviewTokenRepository, UsedToken
from tests.support.facade import Facade, body_of, new_id, submission
from tests.support.images import AS_FILE, IMAGES, Images, picture
from tests.support.messages import Message, message, moderation, review_message
from tests.support.orders import Returns, an_order, order_event, return_command, wanted_return
from tests.support.service import Json, Servers, Service
from tests.support.topics import delete_topic
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

EMAIL, STREET, WORDS = "anna.berg@example.com", "Lindenallee 7", "Nobody else would put it like this"


async def everything_in(service: Service) -> str:
    """Return the whole content of the database as text."""
    async with service.mongo() as database:
        return "\n".join(
            [str(await database[name].find().to_list()) for name in await database.list_collection_names()]
        )


async def export(service: Service, person: str) -> Json:
    """Return the data of a person as exported by the command."""
    return dict(json.loads((await service.run("privacy", "export", "--customer", person)).stdout))


async def erase(service: Service, person: str, *options: str, code: int = 0) -> str:
    """Erase the data of a person; returns the output of the command."""
    ended = await service.run("privacy", "erase", "--customer", person, "--yes", *options, code=code)
    return ended.stdout + ended.stderr


async def replay(service: Service, *options: str) -> str:
    """Replay all dead letters; returns the output of the command."""
    return (await service.run("dlq", "replay", *options)).stdout


async def test_person_is_exported_and_erased(
    own_service: Service, own_facade: Facade, own_returns: Returns, product: str
) -> None:
    facade, returns = own_facade, own_returns
    anna, berta, store = new_id("anna"), new_id("berta"), await facade.open_store(oneReviewPerCustomer=True)
    author = {"userId": anna, "userName": "Anna Berg", "review": WORDS}
    mine = await facade.submit_approved(
        {**submission(product, 1), **author}, {**submission(product, 2, storeId=store), **author}
    )
    await facade.submit({**submission(product, 1), **author, "id": mine[0], "title": "Edited"})
    others = await facade.submit_approved(submission(product, 5, userId=berta, userName="Berta Holm"))
    customer = {"customerId": anna, "customerName": "Anna Berg", "customerEmail": f"Anna Berg <{EMAIL}>"}
    order = await returns.ordered({"line": 5}, **customer, address={"street": STREET})
    voted = await facade.submit_approved(submission(product, 5, userId=berta, userName="Berta Holm"))
    await _publish_feedback(own_service, voted[0], anna)
    await _settle_reports(own_service, voted[0], "dora")
    given_back = await returns.create(order, {"line": 2})
    await returns.change(given_back, resolution=WORDS)
    bad = message(submission(product, 9, userId=anna, review=WORDS))
    await own_service.publish("review-submissions", bad)
    await eventually(own_service.dead_letters, lambda letters: len(letters) == 1)
    await _mail_to(own_service, anna)
    async with own_service.mongo() as database:
        token = ReviewToken(None, order, "line", product, anna, datetime.now(UTC))
        use = partial(ReviewTokenRepository(database).use, [UsedToken(token, mine[0])])
        await in_transaction(database, use)

    shown = await export(own_service, anna)
    assert {review["id"] for review in shown["reviews"]} == set(mine)
    assert [(each["action"], each["fields"]) for each in shown["moderation"]] == [("edit", ["title"])]
    times = [shown["at"], *shown["latestReminders"], *(each["at"] for each in shown["moderation"])]
    assert [each for each in times if each != timestamp(moment_in(each))] == []
    assert [each["address"] for each in shown["orders"]] == [{"street": STREET}]
    assert [each["resolution"] for each in shown["returns"]] == [WORDS]
    assert [letter["value"]["userId"] for letter in shown["deadLetters"]] == [anna]
    assert shown["mailsNotSentYet"] == [{"to": EMAIL}]
    assert [each["orderId"] for each in shown["usedReviewTokens"]] == [order]
    assert [(each["reviewId"], each["helpful"]) for each in shown["votes"]] == [(voted[0], True)]
    assert [(each["reviewId"], each["explanation"]) for each in shown["reports"]] == [(voted[0], WORDS)] * 2
    assert [each["settled"]["action"] for each in shown["reports"]] == ["approve"] * 2
    assert [each["explanation"] for each in shown["waitingFeedback"]] == [WORDS] * 2
    assert (shown["remindersSent"], len(shown["latestReminders"])) == (2, 2)
    assert berta not in json.dumps(shown)
    assert "dora" not in json.dumps(shown)

    assert "1 dead letter," in await erase(own_service, anna)
    everything = await everything_in(own_service)
    assert [trace for trace in (anna, "Anna Berg", EMAIL, EMAIL.upper(), STREET, WORDS) if trace in everything] == []
    async with own_service.mongo() as database:
        assert await ReviewTokenRepository(database).used([token.line]) == {token.line: mine[0]}
    # Data of others, and the numbers that the shop needs, are unchanged.
    assert set(await facade.listed(entityIds=[product])) == {*others, *voted}
    assert await facade.rating(product) == (5.0, 2)
    left = await facade.review(voted[0])
    assert (left["helpful"], left["notHelpful"], left["reports"]) == (0, 1, 0)
    reports = (await facade.get(f"/api/customerReviews/{voted[0]}/reports"))["results"]
    assert {(each["reason"], each["explanation"], each["email"]) for each in reports} == {
        ("illegal", "", None),
        ("spam", "", None),
    }
    assert await returns.available(order) == {"line": 3}
    assert (await returns.existing(given_back))["order"]["items"][0]["quantity"] == 5
    await own_service.run("ratings", "verify")

    # The erasure is recorded, without the name, and nothing of the data comes back.
    async with own_service.mongo() as database:
        (record,) = await database["erasures"].find().to_list()
    kept = {"reviews": 2, "orders": 1, "returns": 1, "mails": 1, "reminders": 2, "reviewTokens": 1, "waiting": 2}
    kept |= {"edits": 1, "votes": 1, "reports": 2, "images": 0}
    assert record["counts"] == kept
    audit = (await facade.get("/api/audit", action="delete"))["results"]
    assert {(entry["subject"], entry["reviewId"]) for entry in audit} == {("plaudit privacy", id) for id in mine}
    replayed = await replay(own_service)
    assert "Replayed 0 dead letters" in replayed
    assert "Left out 1 dead letter with data of people who have been erased" in replayed
    assert "Deleted 0 reviews" in await erase(own_service, anna)


async def _publish_feedback(service: Service, review: str, person: str) -> None:
    """Publish votes and reports of a person, two of them parked, and a vote of somebody else."""
    report = {"action": "report", "explanation": WORDS, "goodFaith": True}
    mine = {"reviewId": review, "userId": person}
    feedback = [
        {"action": "vote", **mine, "helpful": True},
        {"action": "vote", **mine, "userId": new_id("berta"), "helpful": False},
        {**report, **mine, "reason": "spam"},
        {**report, "reviewId": review, "reason": "illegal", "name": "Anna Berg", "email": EMAIL.upper()},
    ]
    await service.publish("review-feedback", *(message(each, review) for each in feedback))
    later = new_id("review")
    early: Json = {**report, "reviewId": later, "reason": "spam"}
    early_reports = ({**early, "userId": person}, {**early, "email": EMAIL.upper()})
    await service.publish("review-feedback", *(message(each, later) for each in early_reports))
    async with service.mongo() as database:

        async def counts() -> list[int]:
            return [await database[name].count_documents({}) for name in ("votes", "reports", "parkedCommands")]

        await eventually(counts, lambda found: found == [2, 2, 2])


async def _settle_reports(service: Service, review: str, moderator: str) -> None:
    await service.publish("moderation-commands", moderation("approve", review, moderator=moderator))
    async with service.mongo() as database:
        settled = partial(database["reports"].count_documents, {"settled.moderator": moderator})
        await eventually(settled, lambda count: count == 2)


LETTERS = ("review-submissions", "order-events", "return-commands")


async def _letters(service: Service, count: int) -> None:
    async def letters() -> int:
        return sum([len(await service.records(f"{topic}.dlq")) for topic in LETTERS])

    await eventually(letters, lambda found: found == count)


async def test_personal_data_is_found_in_every_shape_and_place(own_service: Service, own_returns: Returns) -> None:
    number = random.randrange(10**9, 10**10)
    anna, berta, later = str(number), f"{number}0", new_id("order")
    order = await own_returns.ordered({"line": 5}, customerId=anna)
    # Anna's data: by a number, by her order alone, deeply nested, cut off, and nested deeper than a document can be.
    await own_service.publish(
        "review-submissions",
        message(submission("x", userId=number, review=WORDS)),
        Message(None, f'{{"userId": "{anna}", "review": "{WORDS}'.encode()),
        Message(None, f'{{"userId": "{anna}", "x": {"[" * 600}{"]" * 600}}}'.encode()),
    )
    deep = json.loads(f"{'[' * 200}{[1] * 2_000}{']' * 200}")
    await own_service.publish("order-events", message({"order": {"customer": {"id": number}}, "x": deep}))
    # An order with unusual whitespace.
    laid_out = json.dumps(an_order(new_id("order"), {"line": 5}, customerId=anna), indent="\t").replace("\n", "\r\n")
    await own_service.publish("order-events", Message(None, laid_out.encode()))
    await eventually(partial(own_returns.available, json.loads(laid_out)["id"]), lambda known: known is not None)
    await own_service.publish("return-commands", return_command("create", {"orderId": order, "resolution": WORDS}))
    # Data of others: other fields with Anna's number, and an id that starts with hers.
    await own_service.publish(
        "review-submissions",
        message(submission(anna, 9, userId=berta)),
        Message(None, f'{{"userId": "{berta}", "rating": 5'.encode()),
    )
    await _letters(own_service, 7)
    # Parked commands.
    wanted = wanted_return(later, {"line": 2}, resolution=WORDS)
    wanted["id"] = new_id("return")
    change = {"id": wanted["id"], "resolution": WORDS}
    early = [return_command("create", wanted, user=anna), return_command("update", change, later, user=anna)]
    await own_service.publish("return-commands", *early)
    await own_service.publish("moderation-commands", moderation("approve", new_id(), moderator=anna))
    async with own_service.mongo() as database:
        await eventually(partial(database["parkedReturns"].count_documents, {}), lambda found: found == 2)
        await eventually(partial(database["parkedCommands"].count_documents, {}), lambda found: found == 1)

    shown = await export(own_service, anna)
    assert sorted(each["id"] for each in shown["orders"]) == sorted([order, json.loads(laid_out)["id"]])
    assert len(shown["deadLetters"]) == 5
    assert len((await own_service.run("privacy", "export", "--customer", anna)).stdout) < 50_000
    assert berta not in json.dumps(shown)
    assert [each["return"]["resolution"] for each in shown["waitingReturns"]] == [WORDS] * 2
    assert [each["moderator"] for each in shown["waitingModeration"]] == [anna]

    erased = await erase(own_service, anna)
    assert "5 dead letters" in erased
    assert "3 waiting commands" in erased
    everything = await everything_in(own_service)
    for trace in (anna, WORDS, hashlib.sha256(anna.encode()).hexdigest()):
        assert trace not in everything
    replayed = await replay(own_service)
    assert "Replayed 2 dead letters" in replayed
    assert "Left out 5 dead letters with data of people who have been erased" in replayed

    # An acknowledged return still takes effect, without her words and name.
    await own_returns.ordered({"line": 5}, id=later)
    await eventually(partial(own_returns.available, later), lambda left: left == {"line": 3})
    assert WORDS not in await everything_in(own_service)


async def _return_by(service: Service, returns: Returns, user: str, order: str) -> str:
    """Publish a return with texts by a user to Kafka, and wait for it; returns its id."""
    wanted = wanted_return(order, {"line": 1}, resolution=WORDS, id=new_id("return"))
    wanted["lineItems"][0]["reason"] = WORDS
    await service.publish("return-commands", return_command("create", wanted, user=user))
    await eventually(partial(returns.get, wanted["id"]), lambda stored: stored is not None)
    return str(wanted["id"])


async def _change_by(service: Service, returns: Returns, user: str, order: str, changes: Json) -> None:
    """Publish a change of a return by a user, and wait for it."""
    await service.publish("return-commands", return_command("update", changes, order, user=user))
    await eventually(partial(returns.existing, changes["id"]), lambda stored: stored["modifiedBy"] == user)


def _names_and_texts(stored: Json) -> tuple[str | None, ...]:
    """Return the names and texts in a return with one line."""
    (line,) = stored["lineItems"]
    names = [each[name] for each in (stored, line) for name in ("createdBy", "modifiedBy")]
    return (*names, stored["resolution"], line["reason"])


async def test_returns_of_others_orders_are_found_by_user(own_service: Service, own_returns: Returns) -> None:
    service, returns = own_service, own_returns
    anna, berta, clerk = (new_id(name) for name in ("anna", "berta", "clerk"))
    others = await returns.ordered({"line": 5}, customerId=berta)
    nobodys = await returns.ordered({"line": 5}, customerId=None)
    moved = await returns.ordered({"line": 5}, customerId=anna)
    made = [await _return_by(service, returns, anna, order) for order in (others, nobodys, moved)]
    lines = await _return_by(service, returns, clerk, others)
    counted = [{"orderLineItemId": "line", "quantity": 2}]
    await _change_by(service, returns, anna, others, {"id": lines, "lineItems": counted})
    await _change_by(service, returns, clerk, others, {"id": lines, "status": "Approved"})
    later = an_order(moved, {"line": 5}, customerId=berta, modifiedDate="2022-03-15T10:00:00Z")
    await service.publish("order-events", order_event(later))
    await eventually(partial(service.find, "orders", moved), lambda order: order["customerId"] == berta)

    shown = await export(service, anna)
    part, own = (anna, anna, anna, anna, None, None), (anna, anna, anna, anna, WORDS, WORDS)
    exported = {each["id"]: _names_and_texts(each) for each in shown["returns"]}
    assert exported == {**dict(zip(made, (part, own, part), strict=True)), lines: (None, None, None, anna, None, None)}
    assert clerk not in json.dumps(shown)

    assert "4 returns" in await erase(service, anna)
    without, gone = (None, None, None, None, WORDS, WORDS), (None,) * 6
    for id, left in zip(made, (without, gone, without), strict=True):
        assert _names_and_texts(await returns.existing(id)) == left
    assert _names_and_texts(await returns.existing(lines)) == (clerk, clerk, clerk, None, WORDS, WORDS)
    assert await returns.available(others) == {"line": 2}
    assert anna not in await everything_in(service)
    assert "0 returns" in await erase(service, anna)


async def test_all_returns_of_an_order_are_exported_and_erased(own_service: Service, own_returns: Returns) -> None:
    service, anna, number = own_service, new_id("anna"), 1_001
    order = await own_returns.ordered({"line": number}, customerId=anna)
    first = await own_returns.create(order, {"line": 1}, resolution=WORDS)
    async with service.mongo() as database:
        made = await database["returns"].find_one({"_id": first})
        assert made is not None
        others = [{**made, "_id": f"{first}-{place}", "number": f"{first}-{place}"} for place in range(1, number)]
        await database["returns"].insert_many(others)
        shown = (await export(service, anna))["returns"]
        assert len({each["id"] for each in shown}) == number
        assert f"1 order, {number:,} returns" in await erase(service, anna)
        assert await database["returns"].count_documents({"resolution": WORDS}) == 0
        assert await database["returns"].count_documents({"orderId": order}) == number


async def test_damaged_order_and_return_are_exported_and_erased(own_service: Service, own_returns: Returns) -> None:
    service, anna = own_service, new_id("anna")
    whole, damaged = [await own_returns.ordered({"line": 2}, customerId=anna, customerName="Anna Berg") for _ in "ab"]
    given_back = await own_returns.create(damaged, {"line": 1}, resolution=WORDS)
    async with service.mongo() as database:
        await database["orders"].update_one({"_id": damaged}, {"$unset": {"body": ""}})
        await database["returns"].update_one({"_id": given_back}, {"$unset": {"lines": ""}})
    shown = {each and each["id"] for each in (await export(service, anna))["orders"]}
    assert shown == {whole, None}
    erased = await erase(service, anna)
    assert f"1 damaged document: return {given_back}. The reviews among them" in erased
    assert "2 orders, 1 return," in erased
    everything = await everything_in(service)
    assert anna not in everything
    assert WORDS not in everything
    (item,) = (await own_returns.http.get(f"/api/orders/{damaged}")).json()["order"]["items"]
    assert (item["id"], item["quantity"]) == ("line", 2)


async def test_damaged_review_that_cannot_be_deleted_is_reported(own_service: Service, own_facade: Facade) -> None:
    service, anna = own_service, new_id("anna")
    damaged, _ = await own_facade.submit(*(submission(new_id(), userId=anna) for _ in "ab"))
    async with service.mongo() as database:
        await database["reviews"].update_one({"_id": damaged}, {"$set": {"ratingHundredths": "four"}})
        assert f"1 review can't be deleted because of damaged fields, and the erasure isn't complete: {damaged}. " in (
            await erase(service, anna, code=1)
        )
        assert [review["_id"] async for review in database["reviews"].find({"userId": anna})] == [damaged]
        await database["reviews"].update_one({"_id": damaged}, {"$set": {"ratingHundredths": 400}})
    assert "Deleted 1 review" in await erase(service, anna)


async def test_erased_person_is_recognised_by_any_mark(own_service: Service) -> None:
    """The mark may be made with the database's own key, or with a current or former key of the configuration."""
    people = [new_id(name) for name in ("own", "whole", "configured", "rotated")]
    letters = [Message(None, f'{{"user": "{person}", "action'.encode()) for person in people]
    await own_service.publish("return-commands", *letters)
    await _letters(own_service, 4)
    async with own_service.mongo() as database:
        await erase(own_service, people[0])
        # Before several keys were possible, the key was the whole secret, as read from a file.
        key = "k" * 32 + "\n"
        whole = hmac.digest(key.encode(), people[1].encode(), "sha256").hex()
        await database["erasures"].insert_one({"mark": whole, "at": datetime.now(UTC), "counts": {}})
        own_service.environment["PLAUDIT_PRIVACY__ERASURE_KEY"] = key
        await erase(own_service, people[2])
        newer = "n" * 32
        own_service.environment["PLAUDIT_PRIVACY__ERASURE_KEY"] = f"{newer}, {key}"
        await erase(own_service, people[3])
        marks = [document["mark"] async for document in database["erasures"].find().sort("at")]
        assert len(set(marks)) == 4
        assert marks[2] == hmac.digest(b"k" * 32, people[2].encode(), "sha256").hex()
        assert marks[3] == hmac.digest(newer.encode(), people[3].encode(), "sha256").hex()
        assert hashlib.sha256(people[0].encode()).hexdigest() not in marks
        # Including letters that arrived after the search for them.
        await database["erasedLetters"].delete_many({})
    assert "Left out 4 dead letters with data of people who have been erased" in await replay(own_service, "--dry-run")
    shown = (await own_service.run("config")).stdout
    assert key.strip() not in shown
    assert newer not in shown


async def _mail_to(service: Service, customer: str) -> None:
    """Store a mail that is not sent yet, and the customer's count of earlier ones."""
    async with service.mongo() as database:
        record = PlainRecord("mail-commands", 0, 0, 0, customer.encode(), json.dumps({"to": EMAIL}).encode(), [])
        await MailRepository(database).accept({"mail": record}, datetime.now(UTC))
        await database["reminderCustomers"].insert_one({"_id": customer, "sent": 2, "times": [0, 1]})


async def test_failures_are_reported_and_not_recorded(own_service: Service, own_facade: Facade, tmp_path: Path) -> None:
    anna = new_id("anna")
    await own_facade.submit(submission(new_id(), userId=anna))
    await own_service.stop("worker")
    assert "Check that a worker is running" in await erase(own_service, anna, "--wait", "1", code=1)
    async with own_service.mongo() as database:
        assert await database["erasures"].count_documents({}) == 0
    own_service.start("worker")
    await erase(own_service, anna)
    file = tmp_path / "anna.json"
    await own_service.run("privacy", "export", "--customer", anna, "-o", str(file))
    assert json.loads(file.read_bytes())["reviews"] == []
    assert file.stat().st_mode & 0o077 == 0
    nowhere = tmp_path / "missing" / "anna.json"
    ended = await own_service.run("privacy", "export", "--customer", anna, "-o", str(nowhere), code=2)
    assert " ".join(ended.stderr.split()).endswith("is not a folder: create it, or choose another one.")


async def test_interrupted_erasure_is_recorded_and_resumed(own_service: Service, own_returns: Returns) -> None:
    anna = new_id("anna")
    order = await own_returns.ordered({"line": 5}, customerId=anna, customerEmail=EMAIL)
    await own_returns.create(order, {"line": 2})
    await _mail_to(own_service, anna)
    await own_service.publish("review-submissions", message(submission("x", 9, userId=anna)))
    await _letters(own_service, 1)
    async with own_service.mongo() as database:
        # MongoDB refuses the first write to these: it fails the erasure there, as a server outage would.
        for collection in ("erasedLetters", "orders"):
            await database.command("collMod", collection, validator={"customerId": anna})
            assert "Document failed validation" in await erase(own_service, anna, code=1)
            await database.command("collMod", collection, validator={})
            # Mails are the first that is forgotten.
            (mail,) = await database["mails"].find().to_list()
            assert (mail["state"], mail.get("code"), "record" in mail) == ("rejected", "erased", False)
        assert [cut["counts"] async for cut in database["erasures"].find()] == [{}, {}]
        assert anna in await everything_in(own_service)
        # A check of the mark finds the erasure.
        await database["erasedLetters"].delete_many({})
        replayed = await replay(own_service, "--dry-run")
        assert "Left out 1 dead letter with data of people who have been erased" in replayed

        assert "1 order, 1 return" in await erase(own_service, anna)
        assert anna not in await everything_in(own_service)
        *_, done = await database["erasures"].find().sort("at").to_list()
    assert (done["counts"]["orders"], done["counts"]["mails"]) == (1, 0)


async def assert_erased_once_read(service: Service, customer: str) -> None:
    """Erase a person whose one review waits in Kafka: without a worker nothing is erased, with one nothing comes
    back."""
    output = await erase(service, customer, "--wait", "1", code=1)
    assert "haven't processed earlier messages within 1 s, and nothing was removed" in output
    service.start("worker")
    assert "Deleted 1 review" in await erase(service, customer)
    await service.idle()
    assert (await export(service, customer))["reviews"] == []


@pytest.mark.kafka
async def test_review_waiting_in_kafka_does_not_come_back(own_service: Service) -> None:
    anna = new_id("anna")
    await own_service.stop("worker")
    review = submission(new_id(), userId=anna, id=new_id("review"))
    await own_service.publish("review-submissions", review_message(review))
    await assert_erased_once_read(own_service, anna)


@pytest.mark.kafka
async def test_missing_topic_may_contain_data(own_service: Service) -> None:
    """A broker that has just started doesn't know all topics."""
    anna = new_id("anna")
    await own_service.stop("worker")
    await delete_topic(own_service.servers, own_service.topic("image-uploads"))
    assert "nothing was removed" in await erase(own_service, anna, "--wait", "1", code=1)
    await own_service.run("init")
    assert "Deleted 0 reviews" in await erase(own_service, anna)


@pytest.mark.kafka
async def test_replay_waiting_in_kafka_does_not_bring_data_back(own_service: Service) -> None:
    anna, product = new_id("anna"), new_id()
    review = submission(product, userId=anna, id=new_id("review"))
    await own_service.publish("review-submissions", message({**review, "rating": 9}, product))
    (letter,) = await own_service.letters("review-submissions", product, 1)
    await own_service.stop("worker")
    command = {"place": f"review-submissions/{letter.partition}/{letter.offset}", "value": json.dumps(review)}
    await own_service.publish("dead-letter-commands", message(command, product))
    await assert_erased_once_read(own_service, anna)


@pytest.mark.kafka
async def test_unpublished_outbox_message_does_not_bring_data_back(own_service: Service) -> None:
    """For instance the message of a replay, if the worker died before it was published."""
    anna, product = new_id("anna"), new_id()
    value = json.dumps(submission(product, userId=anna, id=new_id("review"))).encode()
    await own_service.stop("worker")
    async with own_service.mongo() as database:
        messages = [[own_service.topic("review-submissions"), product.encode(), value, []]]
        await database["outbox"].insert_one({"at": datetime.now(UTC) - timedelta(minutes=1), "messages": messages})
    assert "nothing was removed" in await erase(own_service, anna, "--wait", "5", code=1)
    own_service.start("worker")
    assert "Deleted 1 review" in await erase(own_service, anna)


@pytest.mark.kafka
async def test_upload_waiting_in_kafka_does_not_come_back(own_service: Service, own_facade: Facade) -> None:
    anna, images = new_id("anna"), Images(own_facade.http)
    await own_service.stop("worker")
    sent = await own_facade.http.post(IMAGES, content=picture(), params={"userId": anna}, headers=AS_FILE)
    id = body_of(sent, dict, 202)["id"]
    assert "haven't processed earlier messages" in await erase(own_service, anna, "--wait", "1", code=1)
    own_service.start("worker")
    assert "1 other image" in await erase(own_service, anna)
    assert await images.status(id) == 404
    assert anna not in await everything_in(own_service)


async def test_erasure_asks_for_confirmation(servers: Servers, tmp_path: Path) -> None:
    ended = await Service(servers, tmp_path).run("privacy", "erase", "--customer", "anna", code=1)
    assert "Aborted" in ended.stderr + ended.stdout
