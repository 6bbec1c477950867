"""API keys: made and revoked by the command line, known to the facade by their hash alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from api.auth.api_keys import ApiKeys, digest_of
from api.auth.authentication import RefusedCredentialError
from domain.permissions import Caller, Permission
from storage.api_keys import ApiKey, ApiKeyRepository
from storage.database import connect
from tests.service import Servers, Service

SECRET = "s" * 43


@pytest.fixture
def command_line(servers: Servers, tmp_path: Path) -> Service:
    """Commands on a database of their own."""
    return Service(servers, tmp_path)


@pytest.fixture
async def keys(command_line: Service) -> AsyncIterator[ApiKeyRepository]:
    client, database = connect(command_line.servers.mongo, command_line.database)
    async with client:
        yield ApiKeyRepository(database)


async def _run(command_line: Service, *command: str) -> str:
    ended = await asyncio.to_thread(command_line.run, "keys", *command)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


async def test_a_key_opens_until_it_is_revoked(command_line: Service, keys: ApiKeyRepository) -> None:
    made = ("create", "shop", "--permission", "customerReviews:read", "--store", "A", "--store", "B")
    key = (await _run(command_line, *made)).strip()
    other = (await _run(command_line, *made[:4], "--forever")).strip()
    assert await ApiKeys(keys).caller(key) == Caller(
        "shop", frozenset({Permission.READ_REVIEWS}), frozenset({"A", "B"})
    )
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
    assert "revoked" in await _run(command_line, "list")


async def _stored(keys: ApiKeyRepository, id: str, **fields: datetime) -> None:
    caller = Caller("shop", frozenset({Permission.READ_REVIEWS}))
    await keys.add(ApiKey(id, caller, digest_of(SECRET), created=datetime.now(UTC), **fields))


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
async def test_other_keys_open_nothing(keys: ApiKeyRepository, credential: str | None) -> None:
    await _stored(keys, "0123456789ab")
    known = ApiKeys(keys)
    assert await known.caller(f"plaudit_0123456789ab_{SECRET}")
    with pytest.raises(RefusedCredentialError):
        await known.caller(credential)


async def test_a_key_expires_also_while_it_is_remembered(
    keys: ApiKeyRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    await _stored(keys, "0123456789ab", expires=now + timedelta(minutes=1))
    known = ApiKeys(keys)
    assert await known.caller(f"plaudit_0123456789ab_{SECRET}")
    monkeypatch.setattr(ApiKey, "is_valid", lambda key, _: _IS_VALID(key, now + timedelta(minutes=1)))
    with pytest.raises(RefusedCredentialError):
        await known.caller(f"plaudit_0123456789ab_{SECRET}")


_IS_VALID = ApiKey.is_valid


async def test_wrong_usage(command_line: Service) -> None:
    for command in (
        ("create", "shop"),
        ("create", "shop", "--permission", "everything"),
        ("create", " ", "--permission", "return:read"),
        ("create", "a\nb", "--permission", "return:read"),
        ("create", "shop", "--permission", "return:read", "--days", "0"),
    ):
        assert (await asyncio.to_thread(command_line.run, "keys", *command)).returncode == 2
    ended = await asyncio.to_thread(command_line.run, "keys", "revoke", "000000000000")
    assert ended.returncode == 1
    assert "plaudit keys list" in ended.stderr
