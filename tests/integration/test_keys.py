"""API keys: created and revoked by the command line, known to the API by their hash alone."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

import httpx
import pytest
from fastapi import FastAPI

from api.app import create_app
from api.auth import timed_cache
from api.auth.api_keys import REMEMBERED_SECONDS, ApiKeys, secret_digest
from api.auth.authentication import RefusedCredentialError
from api.web.limits import RateLimit
from domain.permissions import Caller, Permission
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.publisher import Publisher
from storage.database import connect
from storage.keys import ApiKey, ApiKeyRepository
from tests.support.app import facade_services
from tests.support.service import Servers, Service

SECRET = "s" * 43
KNOWN = f"plaudit_0123456789ab_{SECRET}"
READ = frozenset({Permission.READ_REVIEWS})


@pytest.fixture
async def command_line(servers: Servers, tmp_path: Path) -> Service:
    """Commands on a database of their own."""
    service = Service(servers, tmp_path)
    await service.mark()
    return service


@pytest.fixture
async def keys(command_line: Service) -> AsyncIterator[ApiKeyRepository]:
    client, database = connect(command_line.servers.mongo, command_line.database)
    async with client:
        yield ApiKeyRepository(database)


async def _run(command_line: Service, *command: str) -> str:
    return (await command_line.run("keys", *command)).stdout


@pytest.mark.long
async def test_key_is_accepted_until_revoked(command_line: Service, keys: ApiKeyRepository) -> None:
    made = ("create", "shop", "--permission", "customerReviews:read", "--store", "A", "--store", "B")
    created = await command_line.run("keys", *made)
    key = created.stdout.strip()
    assert "Stores that are not registered yet: A, B." in created.stderr
    other = (
        await _run(command_line, *made[:4], "--permission", "customerReviews:createForOthers", "--forever")
    ).strip()
    assert await ApiKeys(keys).caller(key) == Caller("shop", READ, frozenset({"A", "B"}))
    stored = await keys.all()
    assert [stored_key.caller.stores for stored_key in stored] == [{"A", "B"}, None]
    _, id, secret = key.split("_", 2)
    async with command_line.mongo() as database:
        everything = str(await database["apiKeys"].find().to_list())
    listed = await _run(command_line, "list")
    assert id in everything
    assert id in listed
    assert secret not in everything + listed
    assert "Revoked" in await _run(command_line, "revoke", id)
    with pytest.raises(RefusedCredentialError):
        await ApiKeys(keys).caller(key)
    assert await ApiKeys(keys).caller(other)
    assert "  in A, B\n  may customerReviews:read\n" in listed
    assert "  in all stores\n  may customerReviews:createForOthers, customerReviews:read\n" in listed
    assert "revoked" in await _run(command_line, "list")
    # A leaked key can be revoked by itself.
    assert "Revoked" in await _run(command_line, "revoke", other)
    with pytest.raises(RefusedCredentialError):
        await ApiKeys(keys).caller(other)


@pytest.mark.long
@pytest.mark.parametrize("option", [[], ["--json"]], ids=["text", "JSON"])
@pytest.mark.parametrize("is_pipe", [False, True], ids=["full device", "closed pipe"])
async def test_key_that_cannot_be_printed_is_removed(
    command_line: Service, keys: ApiKeyRepository, option: list[str], *, is_pipe: bool
) -> None:
    if is_pipe:
        reader, output = os.pipe()
        os.close(reader)
    else:
        output = os.open("/dev/full", os.O_WRONLY)
    create = ["-m", "plaudit", "keys", "create", "shop", "--permission", "customerReviews:read", *option]
    try:
        ended = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, *create],
            env=command_line.command_environment(),
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(output)
    assert (ended.returncode, await keys.all()) == (1, [])
    why = "Broken pipe" if is_pipe else "No space left on device"
    assert ended.stderr == f"The key can't be printed ({why}), so it was removed. Create another one.\n"


async def _stored(keys: ApiKeyRepository, id: str, **fields: datetime) -> None:
    await keys.add(ApiKey(id, Caller("shop", READ), secret_digest(SECRET), created=datetime.now(UTC), **fields))


@pytest.mark.long
@pytest.mark.parametrize(
    "credential",
    [
        None,
        "",
        "plaudit",
        f"plaudit_000000000000_{SECRET}",
        f"plaudit_0123456789ab_{SECRET[:-1]}t",
        f"plaudit_0123456789ab_{SECRET}s",
        f"plaudit_0123456789ab_{SECRET}\n",
        f"plaudit_0123456789ab_{'é' * 43}",
        "plaudit_0123456789ab_",
        '{"$ne": null}',
        f"plaudit_{{'$ne': 1}}_{SECRET}",
        "a" * 100_000,
    ],
)
async def test_other_credentials_are_refused(keys: ApiKeyRepository, credential: str | None) -> None:
    await _stored(keys, "0123456789ab")
    known = ApiKeys(keys)
    assert await known.caller(KNOWN)
    with pytest.raises(RefusedCredentialError):
        await known.caller(credential)


async def test_cached_key_expires(keys: ApiKeyRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.now(UTC)
    await _stored(keys, "0123456789ab", expires=now + timedelta(minutes=1))
    known = ApiKeys(keys)
    assert await known.caller(KNOWN)
    monkeypatch.setattr(ApiKey, "is_valid", lambda key, _: _IS_VALID(key, now + timedelta(minutes=1)))
    with pytest.raises(RefusedCredentialError):
        await known.caller(KNOWN)


_IS_VALID = ApiKey.is_valid


@asynccontextmanager
async def _app(servers: Servers, keys: ApiKeyRepository, name: str) -> AsyncIterator[FastAPI]:
    """An API that requires keys and accepts three requests per address."""
    mongo, database = connect(servers.mongo, name)
    async with mongo:
        publisher = Publisher(KafkaConnection(servers.kafka))
        services = facade_services(database, publisher, authenticator=ApiKeys(keys))
        yield create_app(services, rate_limit=RateLimit(0.001, burst=3))
        await publisher.stop()


async def test_guesses_are_limited_before_database_lookup(
    command_line: Service, keys: ApiKeyRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    for id in ("0123456789ab", "ba9876543210"):
        await _stored(keys, id)

    async def status(app: FastAPI, id: str, *, secret: str = SECRET, address: str = "192.0.2.1") -> int:
        transport = httpx.ASGITransport(app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://plaudit.test") as http:
            return (await http.get("/api/entityTypes", headers={"x-api-key": f"plaudit_{id}_{secret}"})).status_code

    async with _app(command_line.servers, keys, command_line.database) as app, command_line.mongo() as database:
        assert await status(app, "0123456789ab") == 200
        await database.command({"profile": 2})
        guesses = [await status(app, f"{number:012x}") for number in range(20)]
        await database.command({"profile": 0})
        looked_up = await database["system.profile"].count_documents({"ns": f"{database.name}.apiKeys"})
        assert guesses == [401] * 3 + [429] * 17
        assert looked_up == 3
        # Callers who were let in before are not affected by guesses from the same address, even when it is time to look
        # up the key again; its id alone does not help a stranger.
        monkeypatch.setattr(timed_cache, "monotonic", lambda: monotonic() + REMEMBERED_SECONDS + 1)
        assert await status(app, "0123456789ab", secret="t" * 43) == 429
        assert await status(app, "0123456789ab") == 200
        assert await status(app, "ba9876543210") == 429
        assert await status(app, "ba9876543210", address="192.0.2.2") == 200


@pytest.mark.long
async def test_wrong_usage(command_line: Service) -> None:
    for command in (
        ("create", "shop"),
        ("create", "shop", "--permission", "everything"),
        ("create", " ", "--permission", "return:read"),
        ("create", "\u3164", "--permission", "return:read"),
        ("create", "a\nb", "--permission", "return:read"),
        ("create", "shop", "--permission", "return:read", "--days", "0"),
        ("create", "shop", "--permission", "return:read", "--days", "1", "--forever"),
    ):
        await command_line.run("keys", *command, code=2)
    ended = await command_line.run("keys", "revoke", "000000000000", code=1)
    assert "plaudit keys list" in ended.stderr


async def test_listing_keys_needs_permission_for_all_stores(command_line: Service, keys: ApiKeyRepository) -> None:
    now, reader = datetime.now(UTC), frozenset({Permission.READ_KEYS})
    await _stored(keys, "000000000001", revoked=now)
    await _stored(keys, "000000000002", expires=now)
    for id, stores in (("0123456789ab", None), ("ba9876543210", frozenset({"A"}))):
        await keys.add(ApiKey(id, Caller("audit", reader, stores), secret_digest(SECRET), created=now))
    async with _app(command_line.servers, keys, command_line.database) as app:
        transport = httpx.ASGITransport(app)

        async def list_keys(id: str) -> httpx.Response:
            async with httpx.AsyncClient(transport=transport, base_url="http://plaudit.test") as http:
                return await http.get("/api/keys", headers={"x-api-key": f"plaudit_{id}_{SECRET}"})

        answer = await list_keys("0123456789ab")
        assert (await list_keys("ba9876543210")).status_code == 403
    rows = {row["id"]: row for row in answer.json()}
    assert [rows[id]["state"] for id in sorted(rows)] == ["revoked", "expired", "valid", "valid"]
    bound = rows["ba9876543210"]
    assert (bound["subject"], bound["permissions"], bound["stores"]) == ("audit", ["keys:read"], ["A"])
    assert "digest" not in answer.text
    assert SECRET not in answer.text
