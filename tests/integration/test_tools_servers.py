"""Tools wait for their servers, and refuse to work on those of another service."""

import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from messaging.kafka.administration import admin_client
from messaging.kafka.connection import KafkaConnection
from tests.support.forks import ForkedCommand
from tests.support.service import Servers, Service
from tests.support.waiting import eventually, free_port

TOPIC_COMMANDS = (
    *("ratings rebuild", "privacy erase --customer 4711 --yes", "reminders run", "reviews republish", "migrate"),
    *("dlq replay", "dlq replay --dry-run", "dlq discard --all --reason test", "dlq list", "dlq summary"),
    *("topics grow 8", "privacy export --customer 4711", "reviews compare --at 2026-01-01T00:00Z"),
)
"""Commands that read topics, write to them, or change their partitions."""

DATABASE_COMMANDS = (
    *("ratings verify", "ratings rebuild", "privacy erase --customer 4711 --yes", "privacy export --customer 4711"),
    *("export", "keys list", "keys create shop --permission settings:read", "reviews report", "reviews republish"),
    *("audit archive audit.gz --before 2026-01-01", "reminders preview", "reminders run", "migrate", "topics grow 8"),
    *("dlq list", "dlq replay", "rules try reviews.csv --store Electronics", "reviews compare --at 2026-01-01T00:00Z"),
)
"""Commands that use the database."""


def reconfigured(service: Service, folder: Path, **environment: str) -> Service:
    """Return the service with this configuration of its commands."""
    own = {
        "PLAUDIT_MONGO__DATABASE": service.database,
        "PLAUDIT_KAFKA__TOPIC_PREFIX": service.prefix,
        **environment,
    }
    return Service(service.servers, folder, environment=own)


async def topics_of(servers: Servers, prefix: str) -> Sequence[str]:
    async with admin_client(KafkaConnection(servers.kafka)) as admin:
        return [name for name in await admin.list_topics() if name.startswith(prefix)]


@pytest.mark.long
@pytest.mark.parametrize("command", TOPIC_COMMANDS)
async def test_wrong_prefix_is_reported_before_any_effect(service: Service, tmp_path: Path, command: str) -> None:
    mistyped = reconfigured(service, tmp_path, PLAUDIT_KAFKA__TOPIC_PREFIX="mistyped.")
    stderr = " ".join((await mistyped.run(*command.split(), code=1)).stderr.split())
    assert "There is no topic mistyped." in stderr
    assert "check PLAUDIT_KAFKA__TOPIC_PREFIX" in stderr
    assert await topics_of(service.servers, "mistyped.") == []
    async with service.mongo() as database:
        # An outbox entry for a missing topic would block the outbox of all workers.
        assert await database["outbox"].count_documents({"messages.0.0": {"$regex": r"^mistyped\."}}) == 0


@pytest.mark.long
@pytest.mark.parametrize("command", DATABASE_COMMANDS)
async def test_wrong_database_is_reported(service: Service, tmp_path: Path, command: str) -> None:
    (tmp_path / "reviews.csv").write_text("entityId\n")
    mistyped = reconfigured(service, tmp_path, PLAUDIT_MONGO__DATABASE="mistyped")
    result = await mistyped.run(*command.split(), code=1)
    assert "Check PLAUDIT_MONGO__DATABASE" in " ".join(result.stderr.split())
    assert result.stdout == ""
    async with service.mongo() as database:
        assert "mistyped" not in await database.client.list_database_names()


@pytest.mark.long
@pytest.mark.parametrize("command", ["ratings verify", "privacy export --customer 4711", "keys list", "reminders run"])
async def test_unavailable_database_is_awaited(servers: Servers, tmp_path: Path, command: str) -> None:
    away = Service(replace(servers, mongo=f"mongodb://127.0.0.1:{free_port()}"), tmp_path)
    environment = {**away.command_environment(), "PLAUDIT_MONGO__TIMEOUT": "0.1"}
    log = tmp_path / "log"
    waiting = ForkedCommand(*command.split(), environment=environment, folder=tmp_path, log=log)
    try:
        await eventually(lambda: log.read_text(), lambda text: "waiting for MongoDB" in text)
        assert waiting.poll() is None
        waiting.send_signal(signal.SIGTERM)
        await eventually(waiting.poll, lambda code: code == 1)
    finally:
        waiting.kill()
    assert "Traceback" not in log.read_text()


async def test_failed_authentication_is_reported(service: Service, tmp_path: Path) -> None:
    stranger = reconfigured(service, tmp_path)
    host = service.servers.mongo.partition("://")[2].rpartition("@")[2]
    stranger.environment["PLAUDIT_MONGO__URI"] = f"mongodb://nobody:pass-of-nobody@{host}"
    stderr = " ".join((await stranger.run("ratings", "verify", code=1)).stderr.split())
    assert "MongoDB denies access: Authentication failed. Check the user in PLAUDIT_MONGO__URI" in stderr
    assert "pass-of" not in stderr
