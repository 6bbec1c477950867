"""Each record takes effect or becomes a dead letter, despite failures."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiokafka.errors import MessageSizeTooLargeError
from pymongo import AsyncMongoClient

from consumers import inbox as module
from consumers.inbox import Handler, Inbox
from domain.delivery import OutgoingMessage
from messaging.dead_letters_codes import DeadLetterCode
from messaging.decoding import DeadLetter, InvalidMessageError, RawRecord, Received
from messaging.kafka.connection import BrokerAwayError
from messaging.kafka.record_batches import UnreadableValue
from messaging.topics import Topic
from tests.support.records import Record


@dataclass
class Broker:
    """A publisher that first raises the given failures, one per call, and then records dead letters."""

    failures: list[Exception] = field(default_factory=list)
    letters: list[tuple[int, str, bytes | None]] = field(default_factory=list)

    async def publish(self, messages: Sequence[OutgoingMessage]) -> None:
        if self.failures:
            raise self.failures.pop(0)
        for message in messages:
            reason = {name: (value or b"").decode() for name, value in message.headers}
            self.letters.append((int(reason["x-source-offset"]), reason["x-error-code"], message.value))


def number(value: bytes) -> int:
    if not value.isdigit():
        raise InvalidMessageError(DeadLetterCode.INVALID_MESSAGE, "Not a number")
    return int(value)


def records(*values: bytes | None) -> list[RawRecord]:
    return [Record(offset, key=b"key", value=value) for offset, value in enumerate(values)]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_PAUSE_S", 0.0)


@pytest.fixture(autouse=True)
def _numbers_as_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READERS", dict.fromkeys(Topic, number))


async def never(batch: Sequence[Received[int]]) -> None:
    raise AssertionError(batch)


async def deliver(broker: Broker, handle: Handler[int], batch: Sequence[RawRecord], *, is_slow: bool = False) -> None:
    await Inbox(Topic.ORDER_EVENTS, handle, broker.publish, is_slow=is_slow).deliver(batch)


async def test_messages_are_handled_in_order_and_invalid_ones_become_dead_letters() -> None:
    broker, handled = Broker(), list[int]()

    async def handle(batch: Sequence[Received[int]]) -> None:
        handled.extend(message for _, message in batch)

    await deliver(broker, handle, records(b"1", b"x", b"3", None))
    assert handled == [1, 3]
    assert broker.letters == [(1, "invalid-message", b"x"), (3, "empty", None)]


async def test_handler_is_not_called_without_messages() -> None:
    broker = Broker()
    unreadable = UnreadableValue(b"raw", DeadLetterCode.UNDECODABLE, "no client can decode it")
    await deliver(broker, never, [Record(value=unreadable)])
    assert [(offset, code) for offset, code, _ in broker.letters] == [(0, "undecodable")]


@pytest.mark.parametrize("slow", [False, True])
async def test_messages_refused_by_the_handler_become_dead_letters(slow: bool) -> None:
    broker = Broker()

    async def handle(batch: Sequence[Received[int]]) -> list[DeadLetter]:
        error = InvalidMessageError(DeadLetterCode.ID_TAKEN, "Odd")
        return [DeadLetter(record, error) for record, message in batch if message % 2]

    await deliver(broker, handle, records(b"1", b"2", b"3"), is_slow=slow)
    assert broker.letters == [(0, "id-taken", b"1"), (2, "id-taken", b"3")]


async def test_a_batch_is_retried_while_a_server_is_unavailable() -> None:
    broker, attempts = Broker(), list[list[int]]()

    async def handle(batch: Sequence[Received[int]]) -> None:
        attempts.append([message for _, message in batch])
        if len(attempts) < 3:
            raise BrokerAwayError("away")

    await deliver(broker, handle, records(b"1", b"2"))
    assert attempts == [[1, 2]] * 3
    assert broker.letters == []


async def test_too_large_batch_is_split() -> None:
    broker, attempts, handled = Broker(), Counter[int](), list[int]()

    async def handle(batch: Sequence[Received[int]]) -> None:
        attempts[len(batch)] += 1
        if len(batch) > 2 or attempts[1] in range(1, 20):
            raise BrokerAwayError("too much, or away")
        handled.extend(message for _, message in batch)

    await deliver(broker, handle, records(b"1", b"2", b"3", b"4", b"5", b"6", b"7"))
    assert handled == [1, 2, 3, 4, 5, 6, 7]
    # A single record is retried until it succeeds.
    assert attempts == {7: 5, 3: 5, 4: 5, 2: 3, 1: 20}
    assert broker.letters == []


@pytest.mark.long
async def test_large_batch_is_decoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_BYTES", 5)
    parts: list[list[int]] = []

    async def handle(batch: Sequence[Received[int]]) -> None:
        parts.append([each.message for each in batch])

    broker = Broker()
    await deliver(broker, handle, records(b"11", b"22", None, b"x", b"33", b"4444444", b"55", b"66"))
    assert parts == [[11, 22], [33], [4444444], [55, 66]]
    assert [offset for offset, _, _ in broker.letters] == [2, 3]


async def test_only_the_failing_record_becomes_an_extra_dead_letter() -> None:
    broker, handled = Broker(), list[int]()

    async def handle(batch: Sequence[Received[int]]) -> None:
        if any(message == 5 for _, message in batch):
            raise ValueError("five")
        handled.extend(message for _, message in batch)

    values = [b"0", b"x", b"2", b"3", b"4", b"5", b"6", b"y"]
    await deliver(broker, handle, records(*values))
    assert handled == [0, 2, 3, 4, 6]
    assert sorted(broker.letters) == [
        (1, "invalid-message", b"x"),
        (5, "processing-failed", b"5"),
        (7, "invalid-message", b"y"),
    ]


@pytest.mark.long
async def test_too_large_dead_letter_is_published_without_value() -> None:
    broker = Broker([BrokerAwayError("away"), MessageSizeTooLargeError(), MessageSizeTooLargeError()])
    await deliver(broker, never, records(b"x", b"y"))
    assert broker.letters == [(0, "invalid-message", None), (1, "invalid-message", b"y")]


async def test_batch_that_outlives_its_connection_is_cancelled() -> None:
    """It is cancelled when the process stops, but PyMongo raises another error while it aborts the transaction."""
    client = AsyncMongoClient[dict[str, Any]]("mongodb://127.0.0.1:1")
    await client.close()
    attempts, broker = 0, Broker()

    async def handle(batch: Sequence[Received[int]]) -> None:
        nonlocal attempts
        attempts += 1
        await client.database.things.find_one()

    with pytest.raises(asyncio.CancelledError):
        await Inbox(Topic.REVIEW_CHANGES, handle, broker.publish).deliver(records(b"1", b"2", b"3"))
    assert (attempts, broker.letters) == (1, [])
