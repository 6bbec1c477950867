"""The log of a worker names the command of a message."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import structlog
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from consumers.inbox import Inbox
from consumers.telemetry import observe_batch
from domain.delivery import OutgoingMessage
from messaging.decoding import RawRecord, Received
from messaging.envelope import COMMAND_HEADER
from messaging.topics import Topic
from tests.support.records import Record


@pytest.fixture(autouse=True)
def loggers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loggers that log everything, independent of earlier configuration in this process."""
    before = structlog.get_config()
    structlog.reset_defaults()
    for module in ("consumers.inbox", "consumers.telemetry"):
        monkeypatch.setattr(f"{module}.log", structlog.get_logger())
    yield
    structlog.configure(**before)


def record(offset: int, command_id: str | None = None) -> RawRecord:
    headers = [(COMMAND_HEADER, command_id.encode())] if command_id else []
    return Record(offset, headers, value=b'{"action": "approve", "ids": ["r"]}')


async def test_failed_record_is_logged_with_its_command() -> None:
    letters: list[OutgoingMessage] = []

    async def handle(batch: Sequence[Received[Any]]) -> None:
        if any(record.offset in (1, 2) for record, _ in batch):
            raise ValueError("bad")

    async def publish(messages: Sequence[OutgoingMessage]) -> None:
        letters.extend(messages)

    records = [record(0, "a"), record(1, "b"), record(2), record(3, "c")]
    with capture_logs([merge_contextvars]) as lines:
        await Inbox(Topic.MODERATION_COMMANDS, handle, publish).deliver(records)
    failed = [(line["offset"], line.get("command_id")) for line in lines if line["event"] == "record failed"]
    assert failed == [(1, "b"), (2, None)]
    assert len(letters) == 2


def test_batch_of_one_command_is_logged_with_it() -> None:
    with capture_logs([merge_contextvars]) as lines:
        for batch in ([record(0, "a"), record(1, "a")], [record(2, "a"), record(3, "b")], [record(4, "a"), record(5)]):
            with observe_batch(Topic.MODERATION_COMMANDS, batch):
                pass
    assert [line.get("command_id") for line in lines] == ["a", None, None]
