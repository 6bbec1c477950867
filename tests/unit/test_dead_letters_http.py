"""Replay commands for dead letters that the facade publishes."""

import json
from collections.abc import Sequence

import pytest

from domain.delivery import OutgoingMessage
from messaging.decoding import MAX_MESSAGE_BYTES
from messaging.kafka.publisher import Publisher
from tests.support.app import client_without_servers, problem_of

REPLAY = "/api/deadLetters/replay"
IN_TURN = [
    *("store-updates/11/9", "review-submissions/2/17", "review-submissions/2/100", "review-submissions/10/3"),
    "moderation-commands/0/1",
]


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
