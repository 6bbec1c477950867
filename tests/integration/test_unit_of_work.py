"""The unit of work on a real database: its pending effects, conflicts and the outbox."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from aiokafka.errors import MessageSizeTooLargeError
from pymongo import WriteConcern
from pymongo.errors import BulkWriteError, OperationFailure

from consumers.inbox import retry
from domain.commands import Outcome
from domain.delivery import OutgoingMessage
from messaging.kafka.connection import BrokerAwayError
from storage import outbox, unit_of_work
from storage.audit import COLLECTION as AUDIT_LOG
from storage.audit import AuditAction, AuditEntry
from storage.database import Database, Document, Session, is_database_away, is_duplicate
from storage.outbox import COLLECTION as OUTBOX
from storage.outbox import Owed
from storage.outcomes import COLLECTION as OUTCOMES
from storage.repositories import Repositories
from storage.unit_of_work import ConflictsError, Transactions, UnitOfWork, is_unavailable
from tests.support.service import Service, own_database
from tests.support.waiting import eventually

THINGS = "things"
MESSAGE = OutgoingMessage("topic", b"key", b"value", (("name", None),))


@pytest.fixture
async def database(service: Service) -> AsyncIterator[Database]:
    async with own_database(service.servers) as database:
        await database[THINGS].insert_one({"_id": 1, "count": 0})
        yield database


class Kafka:
    def __init__(self) -> None:
        self.published: list[OutgoingMessage] = []
        self.is_away = False
        self.unwritable = set[str]()
        self.attempts = 0
        self.largest = 2**30

    async def publish(self, messages: Sequence[OutgoingMessage]) -> None:
        self.attempts += 1
        if self.is_away or not self.unwritable.isdisjoint(message.topic for message in messages):
            raise BrokerAwayError
        self.published += [message for message in messages if len(message.value or b"") <= self.largest]
        if any(len(message.value or b"") > self.largest for message in messages):
            raise MessageSizeTooLargeError


@pytest.fixture
def kafka() -> Kafka:
    return Kafka()


@pytest.fixture
def transactions(database: Database, kafka: Kafka) -> Transactions:
    return Transactions(database, Repositories(database), kafka.publish)


def emit(*messages: OutgoingMessage) -> Callable[[UnitOfWork], Awaitable[None]]:
    """Return work that only emits these messages."""

    async def work(unit: UnitOfWork) -> None:
        unit.emit(messages)

    return work


async def age(database: Database, seconds: int) -> None:
    """Make all outbox entries older by this many seconds."""
    await database[OUTBOX].update_many({}, [{"$set": {"at": {"$subtract": ["$at", seconds * 1_000]}}}])


async def test_conflict_repeats_function_with_nothing_pending(
    database: Database, kafka: Kafka, transactions: Transactions
) -> None:
    attempts = 0

    async def work(unit: UnitOfWork) -> str:
        nonlocal attempts
        attempts += 1
        assert (unit.answers, unit.messages, unit.audited) == ([], [], [])
        unit.answer("command", "item", Outcome.APPLIED)
        unit.answer(None, "other", Outcome.APPLIED)
        unit.emit([MESSAGE])
        found = await database[THINGS].find_one({"_id": 1}, session=unit.session)
        assert found is not None
        if attempts == 1:
            await database[THINGS].update_one({"_id": 1}, {"$inc": {"count": 10}})
        await database[THINGS].update_one({"_id": 1}, {"$set": {"count": found["count"] + 1}}, session=unit.session)
        return "done"

    assert await transactions.run(work) == "done"
    assert attempts == 2
    assert (await database[THINGS].find_one({"_id": 1}) or {})["count"] == 11
    assert kafka.published == [MESSAGE]
    answers = await Repositories(database).outcomes.answers([("command", "item"), ("", "other")])
    assert [answer.outcome for answer in answers.values()] == [Outcome.APPLIED]
    assert await database[OUTBOX].count_documents({}) == 0


async def test_endless_conflicts_raise(
    database: Database, kafka: Kafka, transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_of_work, "CONFLICTS_S", 0.0)

    async def work(unit: UnitOfWork) -> None:
        unit.emit([MESSAGE])
        await database[THINGS].find_one({"_id": 1}, session=unit.session)
        await database[THINGS].update_one({"_id": 1}, {"$inc": {"count": 10}})
        await database[THINGS].update_one({"_id": 1}, {"$set": {"count": 1}}, session=unit.session)

    with pytest.raises(ConflictsError) as raised:
        await transactions.run(work)
    assert is_unavailable(raised.value)
    assert (await database[THINGS].find_one({"_id": 1}) or {})["count"] == 10
    assert (kafka.published, await database[OUTBOX].count_documents({})) == ([], 0)


async def test_killed_session_restarts_unit(database: Database, kafka: Kafka, transactions: Transactions) -> None:
    sessions, interrupted = list[Session](), list[int]()

    async def work(unit: UnitOfWork) -> None:
        unit.emit([MESSAGE])
        await database[THINGS].update_one({"_id": 1}, {"$inc": {"count": 1}}, session=unit.session)
        sessions.append(unit.session)
        slow = {} if interrupted else {"$where": "sleep(15000) || true"}
        assert await database[THINGS].find_one(slow, session=unit.session)

    async def is_searching() -> bool:
        looked = await database.client.admin.aggregate(
            [{"$currentOp": {}}, {"$match": {"command.find": THINGS, "ns": f"{database.name}.{THINGS}"}}]
        )
        return bool(await looked.to_list())

    running = asyncio.create_task(transactions.run(work))
    await eventually(is_searching)
    interrupted.append(1)
    await database.client.admin.command("killSessions", [{"id": sessions[0].session_id["id"]}])
    await running
    assert len(sessions) == 2
    assert (await database[THINGS].find_one({"_id": 1}) or {})["count"] == 1
    assert kafka.published == [MESSAGE]


async def test_failure_leaves_nothing(database: Database, kafka: Kafka, transactions: Transactions) -> None:
    async def work(unit: UnitOfWork) -> None:
        unit.emit([MESSAGE])
        await database[THINGS].update_one({"_id": 1}, {"$set": {"count": 5}}, session=unit.session)
        raise KeyError

    with pytest.raises(KeyError):
        await transactions.run(work)
    assert (await database[THINGS].find_one({"_id": 1}) or {})["count"] == 0
    assert kafka.published == []
    assert await database[OUTBOX].count_documents({}) == 0


async def test_audit_log_and_outcomes_are_written_atomically(
    database: Database, transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = AuditEntry(datetime.now(UTC), "eve", AuditAction.APPROVE, "review")
    owe, failures = transactions.outbox.add, list[Exception]()

    async def failing(messages: Iterable[OutgoingMessage], at: datetime, session: Session) -> list[Owed]:
        owed = await owe(messages, at, session)
        if failures:
            raise failures.pop()
        return owed

    async def work(unit: UnitOfWork) -> None:
        unit.emit([MESSAGE])
        unit.answer("command", "item", Outcome.APPLIED)
        unit.audit([entry])

    async def kept() -> list[int]:
        return [await database[name].count_documents({}) for name in (AUDIT_LOG, OUTCOMES, OUTBOX)]

    monkeypatch.setattr(transactions.outbox, "add", failing)
    failures.append(KeyError())
    with pytest.raises(KeyError):
        await transactions.run(work)
    assert await kept() == [0, 0, 0]
    failures.append(OperationFailure("a conflict", 112, {"errorLabels": ["TransientTransactionError"]}))
    await transactions.run(work)
    assert failures == []
    assert await kept() == [1, 1, 0]


async def test_outbox_keeps_messages_in_batches_until_published(
    database: Database, kafka: Kafka, transactions: Transactions
) -> None:
    messages = [OutgoingMessage("topic", b"%d" % n, bytes(1024 * 1024)) for n in range(9)]
    kafka.is_away = True
    with pytest.raises(BrokerAwayError):
        await transactions.run(emit(*messages))
    assert await database[OUTBOX].count_documents({}) == 3
    kafka.is_away = False
    await age(database, seconds=-3_600)  # so that they aren't overdue even on a slow machine
    assert await transactions.outbox.settle_overdue() == 0
    await age(database, seconds=3_600 + 60)
    assert await transactions.outbox.settle_overdue() == 3
    assert kafka.published == messages
    assert await database[OUTBOX].count_documents({}) == 0


async def test_outbox_of_living_process_is_left_alone(
    database: Database, kafka: Kafka, transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "OVERDUE", timedelta(hours=1))
    await transactions.commit(emit(MESSAGE))
    assert (await transactions.outbox.settle_overdue(), kafka.published) == (0, [])
    await age(database, seconds=3_601)
    assert (await transactions.outbox.settle_overdue(), kafka.published) == (1, [MESSAGE])


@pytest.mark.long
async def test_retrying_process_waits_for_kafka_until_cancelled(database: Database, kafka: Kafka) -> None:
    transactions = Transactions(database, Repositories(database), kafka.publish, partial(retry, "test"))
    kafka.is_away = True
    waiting = asyncio.create_task(transactions.run(emit(MESSAGE)))
    await eventually(lambda: kafka.attempts > 1)
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await database[OUTBOX].count_documents({}) == 1
    waiting = asyncio.create_task(transactions.run(emit(MESSAGE)))
    await eventually(lambda: kafka.attempts > 4)
    kafka.is_away = False
    await waiting
    assert kafka.published == [MESSAGE]
    assert await database[OUTBOX].count_documents({}) == 1


async def test_too_large_message_stays_in_outbox_and_blocks_no_other(
    database: Database, kafka: Kafka, transactions: Transactions
) -> None:
    kafka.largest = 100
    small, large = MESSAGE._replace(value=b"s"), MESSAGE._replace(value=bytes(101))
    for _ in range(2):
        await transactions.run(emit(small, large, small))
    kafka.is_away = True
    with pytest.raises(BrokerAwayError):
        await transactions.run(emit(small))
    kafka.is_away = False
    kafka.published.clear()
    await age(database, seconds=60)
    assert await transactions.outbox.settle_overdue() == 1
    assert kafka.published == [small]
    kafka.largest = 101
    assert await transactions.outbox.settle_overdue() == 2
    assert kafka.published == [small, large, large]
    assert await database[OUTBOX].count_documents({}) == 0


async def test_topic_that_cannot_be_written_holds_up_no_other(
    database: Database, kafka: Kafka, transactions: Transactions
) -> None:
    bad, good = MESSAGE._replace(topic="bad"), MESSAGE._replace(topic="good")
    kafka.unwritable = {"bad"}
    for owed in ([bad], [bad, good, bad], *[[bad]] * 5, [good]):
        await transactions.commit(emit(*owed))
    await age(database, seconds=60)
    for _ in range(2):
        kafka.attempts = 0
        with pytest.raises(BrokerAwayError):
            await transactions.outbox.settle_overdue()
        assert kafka.published == [good, good]
        assert kafka.attempts <= 3  # the topic once
    kafka.unwritable.clear()
    assert await transactions.outbox.settle_overdue() == 7
    assert kafka.published == [good, good, *[bad] * 8]


async def test_overdue_messages_wait_while_no_topic_accepts_any(
    database: Database, kafka: Kafka, transactions: Transactions
) -> None:
    messages = [MESSAGE._replace(topic=f"topic-{n}") for n in range(9)]
    await transactions.commit(emit(*messages))
    await age(database, seconds=60)
    kafka.is_away = True
    with pytest.raises(BrokerAwayError):
        await transactions.outbox.settle_overdue()
    assert kafka.attempts == 3
    kafka.is_away = False
    assert await transactions.outbox.settle_overdue() == 1
    assert kafka.published == messages


async def test_older_outbox_entries_are_published_first(
    database: Database, kafka: Kafka, transactions: Transactions
) -> None:
    overdue, living, large = (MESSAGE._replace(value=value) for value in (b"overdue", b"living", bytes(101)))
    kafka.largest = 100
    for owed in (large, overdue):
        await transactions.commit(emit(owed))
    await age(database, seconds=60)
    _, left = await transactions.commit(emit(living))
    now = datetime.now(UTC) + timedelta(seconds=1)
    waiting = asyncio.create_task(transactions.outbox.settle_before(now))
    await eventually(lambda: kafka.published == [overdue])
    assert not waiting.done()
    # Like the process that owns it, which is alive.
    await transactions.outbox.settle(left)
    await waiting
    assert kafka.published == [overdue, living]
    kafka.largest = 101
    await transactions.outbox.settle_before(now)
    assert kafka.published == [overdue, living]
    assert await transactions.outbox.settle_overdue() == 1
    assert kafka.published == [overdue, living, large]


async def test_write_concern_error_precedes_duplicate_key(database: Database) -> None:
    two = database[THINGS].with_options(write_concern=WriteConcern(w=2, wtimeout=50))
    with pytest.raises(BulkWriteError) as missing:
        await two.insert_many([{"_id": 1}], ordered=False)
    assert [failure["code"] for failure in missing.value.details["writeErrors"]] == [11000]
    assert is_database_away(missing.value)
    assert not is_duplicate(missing.value)
    with pytest.raises(BulkWriteError) as repeated:
        await database[THINGS].insert_many([{"_id": 1}], ordered=False)
    assert not is_database_away(repeated.value)
    assert is_duplicate(repeated.value)


async def test_damaged_owed_messages_hold_up_no_others(
    database: Database, kafka: Kafka, transactions: Transactions
) -> None:
    damages: list[Document] = [{"$unset": {"messages": ""}}]
    damages += [{"$set": {f"messages{part}": "?"}} for part in ("", ".0", ".0.1", ".0.2", ".0.3", ".0.3.0", ".0.3.0.1")]
    damages += [{"$set": {f"messages{part}": 5}} for part in (".0.0", ".0.3.0.0")]
    for damage in damages:
        _, (owed,) = await transactions.commit(emit(MESSAGE))
        await database[OUTBOX].update_one({"_id": owed.id}, damage)
    await transactions.commit(emit(MESSAGE))
    await age(database, seconds=60)
    await transactions.outbox.settle_before(datetime.now(UTC))
    assert kafka.published == [MESSAGE]
    await transactions.commit(emit(MESSAGE))
    await age(database, seconds=60)
    assert await transactions.outbox.settle_overdue() == 1
    assert kafka.published == [MESSAGE, MESSAGE]
    assert await database[OUTBOX].count_documents({}) == len(damages)
    # Once they are repaired, the same process publishes them.
    await database[OUTBOX].update_many({}, {"$set": {"messages": [["topic", b"key", b"value", [["name", None]]]]}})
    assert await transactions.outbox.settle_overdue() == len(damages)
