"""Dead letters over HTTP, without servers: the commands of replays, and the server that a failed search names."""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NoReturn, cast

import pytest
from aiokafka import ConsumerRecord, TopicPartition
from pymongo.errors import AutoReconnect

from domain.delivery import OutgoingMessage
from messaging.dead_letters_replays import LetterPlace
from messaging.decoding import MAX_MESSAGE_BYTES, RawRecord
from messaging.kafka import dead_letters
from messaging.kafka.dead_letters import DeadLetterTopics, OpenedLetters
from messaging.kafka.publisher import Publisher
from messaging.kafka.topic_reader import TopicReader
from messaging.topics import Topic
from storage.dead_letters_replays import ReplayRepository
from tests.support.app import client_without_servers, problem_of

REPLAY = "/api/deadLetters/replay"
IN_TURN = [
    *("store-updates/11/9", "review-submissions/2/17", "review-submissions/2/100", "review-submissions/10/3"),
    "moderation-commands/0/1",
]
_PARTITION = TopicPartition("test.order-events.dlq", 0)


async def replay_messages(monkeypatch: pytest.MonkeyPatch, places: list[str]) -> Sequence[OutgoingMessage]:
    """The messages that a replay of these letters publishes; the response lists the ids in the request's order."""
    messages: list[OutgoingMessage] = []

    async def publish(_: Publisher, sent: Sequence[OutgoingMessage]) -> None:
        messages.extend(sent)

    monkeypatch.setattr(Publisher, "publish", publish)
    async with client_without_servers() as http:
        answer = await http.post(REPLAY, json={"places": places})
    assert (answer.status_code, answer.json()["ids"]) == (202, places)
    return messages


async def test_letters_are_replayed_in_record_order(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = await replay_messages(monkeypatch, IN_TURN[::-1])
    assert [json.loads(message.value or b"")["place"] for message in messages] == IN_TURN
    # Records with different keys have no defined order.
    assert len({message.key for message in messages}) == 1


async def test_too_large_value_is_refused_with_the_command_to_use() -> None:
    """The command is larger than the request: it escapes quotes, and has more fields."""
    replay = {"places": IN_TURN[:1], "value": '"' * (MAX_MESSAGE_BYTES // 2 - 40)}
    async with client_without_servers() as http:
        (error,) = problem_of(await http.post(REPLAY, json=replay), 422)["errors"]
    assert (error["pointer"], error["code"]) == ("/value", "too-long")
    assert "when written as JSON: `plaudit dlq replay --value` accepts up to 1 MiB" in error["message"]


class _Letters(DeadLetterTopics):
    """One letter; with `hangs`, Kafka doesn't answer the read of it."""

    def __init__(self, *, hangs: bool) -> None:
        self._hangs = hangs

    @asynccontextmanager
    async def open(self) -> AsyncIterator[OpenedLetters]:
        reader = cast(TopicReader, self)
        yield OpenedLetters(reader, {_PARTITION: LetterPlace(Topic.ORDER_EVENTS, 0, 0)})

    async def spans(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, range]:
        return dict.fromkeys(partitions, range(1))

    async def between(self, spans: Mapping[TopicPartition, range]) -> AsyncIterator[list[RawRecord]]:
        if self._hangs:
            await asyncio.Event().wait()
        yield [ConsumerRecord(*_PARTITION, 0, 0, 0, None, None, None, 0, 0, ())]


@pytest.mark.parametrize(("hangs", "server"), [(True, "The message broker"), (False, "The database")])
async def test_failed_search_names_the_server_that_is_away(
    hangs: bool, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def marks(*_: object) -> NoReturn:
        await asyncio.sleep(0.05)
        raise AutoReconnect

    monkeypatch.setattr(dead_letters, "_TIMEOUT_S", 0.01)
    monkeypatch.setattr(ReplayRepository, "marks", marks)
    async with client_without_servers(letters=_Letters(hangs=hangs)) as http:
        problem = problem_of(await http.get("/api/deadLetters", params={"state": "open"}), 503)
    assert problem["detail"].startswith(server)
