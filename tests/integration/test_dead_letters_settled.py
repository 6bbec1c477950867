"""Dead letters on the command line: replaying and discarding never increase their number."""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

import pytest

from domain.delivery import OutgoingMessage
from messaging.dead_letters_replays import letter_id, replayed_message
from messaging.kafka.connection import BrokerAwayError
from storage.repositories import Repositories
from storage.unit_of_work import Transactions, UnitOfWork
from tests.support.facade import new_id
from tests.support.forks import ForkedCommand
from tests.support.messages import Message
from tests.support.service import Json, Service
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOPIC = "store-updates"


async def dlq(service: Service, *command: str) -> Json:
    """Run a command of `plaudit dlq`; returns its JSON output."""
    return dict(json.loads((await service.run("dlq", *command, "--json")).stdout))


async def until_dead(service: Service, count: int) -> None:
    """Wait until the topic has at least `count` dead letters."""
    await eventually(partial(service.records, f"{TOPIC}.dlq"), lambda found: len(found) >= count, deadline_s=120)


async def replays(service: Service) -> Counter[bytes]:
    """Count the replayed records by the letter that each came from."""
    headers = [dict(record.headers) for record in await service.records(TOPIC)]
    return Counter(each["x-replayed-from"] for each in headers if "x-replayed-from" in each)


async def test_letters_do_not_multiply(own_service: Service) -> None:
    service, count = own_service, 40
    keys = [new_id("store") if number % 4 else None for number in range(count)]
    await service.publish(TOPIC, *(Message(key, b"no JSON") for key in keys))
    await until_dead(service, count)
    assert await dlq(service, "summary", "--topic", TOPIC) | {"groups": []} == {
        **{"open": count, "replayed": 0, "discarded": 0},
        "groups": [],
    }

    results = await asyncio.gather(*(dlq(service, "replay", "--topic", TOPIC) for _ in range(2)))
    assert sum(each["replayed"] for each in results) == count
    assert set((await replays(service)).values()) == {1}
    await until_dead(service, 2 * count)
    summary = await dlq(service, "summary", "--topic", TOPIC)
    assert (summary["open"], summary["replayed"], summary["groups"][0]["failedAgain"]) == (count, count, count)
    again = await dlq(service, "replay")
    assert (again["replayed"], again["leftOut"]["replayed-before"]) == (0, count)

    assert (await dlq(service, "replay", "--again"))["replayed"] == count
    await until_dead(service, 3 * count)
    listed = json.loads((await service.run("dlq", "list", "--json")).stdout)
    assert {(row["state"], row["failedAgain"], row["replayed"]) for row in listed} == {("open", True, 2)}
    assert len(listed) == len({row["place"] for row in listed}) == count

    first, *_ = [row["place"] for row in listed]
    reason = ("--reason", "a test")
    assert (await dlq(service, "discard", first, *reason))["discarded"] == 1
    await service.run("dlq", "discard", *reason, code=2)
    unknown = await service.run("dlq", "discard", "--code", "nonsense", *reason, code=2)
    assert "invalid-json" in unknown.stderr
    assert (await dlq(service, "discard", "--code", "invalid-json", *reason))["discarded"] == count - 1
    assert (await service.run("dlq", "list")).stdout == "No dead letters.\n"
    assert (await dlq(service, "replay", "--again"))["replayed"] == 0
    assert (await dlq(service, "replay", first, first, "--again"))["replayed"] == 1
    async with service.client() as http:
        page = (await http.get("/api/audit", params={"action": "discard", "take": 100})).json()
    assert {(entry["reason"], entry["subject"]) for entry in page["results"]} == {("a test", "plaudit dlq")}
    assert page["totalCount"] == count


async def test_killed_replay_is_completed(own_service: Service) -> None:
    service, count = own_service, 200
    padding = b"x" * 60_000
    await service.publish(TOPIC, *(Message(new_id("store"), padding) for _ in range(count)))
    await until_dead(service, count)
    log = service.folder / "replay.log"
    killed = ForkedCommand("dlq", "replay", environment=service.command_environment(), folder=service.folder, log=log)
    async with service.mongo() as database:
        count_replayed = partial(database["replayedDeadLetters"].count_documents, {})
        await eventually(count_replayed, lambda found: found > 0)
        killed.send_signal(signal.SIGKILL)
        await asyncio.to_thread(killed.wait, 60)
        await service.run("dlq", "replay")
        # A worker publishes the records that the killed command had left in the outbox.
        await eventually(partial(replays, service), lambda found: len(found) == count, deadline_s=120)
        await eventually(partial(database["outbox"].count_documents, {}), lambda owed: owed == 0, deadline_s=120)
    await until_dead(service, count + (await replays(service)).total())
    summary = await dlq(service, "summary")
    assert (summary["open"], summary["groups"][0]["failedAgain"]) == (count, count)


async def test_replay_after_interrupted_one_keeps_order_of_key(own_service: Service) -> None:
    service, key = own_service, new_id("store")
    await service.publish(TOPIC, *(Message(key, b"no JSON") for _ in range(2)))
    await until_dead(service, 2)
    assert await service.stop("worker") == 0
    first, _ = letters = await service.records(f"{TOPIC}.dlq")

    async def fail(_: Sequence[OutgoingMessage]) -> None:
        raise BrokerAwayError

    async def replay(work: UnitOfWork) -> None:
        await work.repositories.replays.remember({letter_id(first): letter_id(first)}, datetime.now(UTC), work.session)
        work.emit([replayed_message(first)])

    async with service.mongo() as database:
        with pytest.raises(BrokerAwayError):
            await Transactions(database, Repositories(database), fail).run(replay)
    assert (await dlq(service, "replay"))["replayed"] == 1
    replayed = [dict(record.headers).get("x-replayed-from") for record in await service.keyed(TOPIC, key)]
    assert replayed[2:] == [letter_id(letter).encode() for letter in letters]
