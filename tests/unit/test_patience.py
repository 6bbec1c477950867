"""Waits for servers log the server's name and the way to stop."""

import asyncio

import pytest
import structlog
from pymongo import AsyncMongoClient
from structlog.testing import capture_logs

from plaudit.processes import waiting
from plaudit.processes.waiting import patiently
from storage.database import Document
from tests.support.waiting import eventually


async def test_silent_server_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "log", structlog.get_logger())
    monkeypatch.setattr(waiting, "_QUIET_S", 0.0)
    answered = asyncio.Event()

    async def attempt() -> str:
        await answered.wait()
        return "an answer"

    with capture_logs() as lines:
        waits = asyncio.create_task(patiently("Kafka", attempt))
        await eventually(lambda: lines)
        answered.set()
        assert await waits == "an answer"
    (line,) = lines
    assert (line["event"], line["error"], line["attempt"]) == ("waiting for Kafka", "no answer yet", 1)
    assert "Ctrl-C" in line["advice"]


async def test_unavailable_server_is_reported_without_details_of_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "log", structlog.get_logger())
    monkeypatch.setattr(waiting, "_FIRST_WARNED_ATTEMPT", 1)
    client: AsyncMongoClient[Document] = AsyncMongoClient("mongodb://127.0.0.1:1", serverSelectionTimeoutMS=1)

    async def attempt() -> None:
        if not lines:
            await client.admin.command("ping")

    async with client:
        with capture_logs() as lines:
            await patiently("MongoDB", attempt)
    assert lines[0]["error"] == "127.0.0.1:1: [Errno 111] Connect call failed ('127.0.0.1', 1)"


async def test_prompt_answer_logs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "log", structlog.get_logger())

    async def attempt() -> int:
        return 1

    with capture_logs() as lines:
        assert await patiently("Kafka", attempt) == 1
    assert lines == []
