"""The embedded MongoDB."""

import asyncio
import importlib.metadata
import os
import platform
import shutil
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import AutoReconnect

from devservers import mongo
from devservers.errors import EmbeddedServerError, MissingPartError
from devservers.mongo import MongoProcess, embedded_mongo, form_replica_set
from devservers.ports import HOST
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("marked")

Document = dict[str, object]


async def insert(server: MongoProcess) -> int:
    """Insert a document in a transaction. Returns the number of documents."""
    async with AsyncMongoClient[Document](server.uri) as client:
        documents = client.test.documents
        async with client.start_session() as session, await session.start_transaction():
            await documents.insert_one({}, session=session)
        return await documents.count_documents({})


@pytest.mark.long
async def test_data_and_address_survive_stop_and_crash(data: Path, progress: list[str]) -> None:
    async with embedded_mongo(data, progress.append) as server:
        assert await insert(server) == 1
        await server.stop()
        assert server.pid is None
        await server.start()
        assert await insert(server) == 2
        address = server.uri
        server.kill()
        assert server.pid is None
    async with embedded_mongo(data, progress.append) as server:
        assert server.uri == address
        assert await insert(server) == 3
        with pytest.raises(EmbeddedServerError, match=r"in use by another `plaudit up` \(process \d+\)"):
            async with embedded_mongo(data, progress.append):
                pass
        assert await insert(server) == 4
        server.kill()
    assert set(progress) == {"Starting MongoDB"}
    assert (data / "logs" / "mongod.log").stat().st_size


@pytest.mark.long
async def test_primary_after_port_change(data: Path, progress: list[str]) -> None:
    async with embedded_mongo(data, progress.append) as server:
        await insert(server)
        port = server.port
        server.kill()
    with socket.socket() as squatter:  # doesn't listen: MongoDB's connections to its old address must be refused
        squatter.bind((HOST, port))
        async with embedded_mongo(data, progress.append) as server:
            assert server.port != port
            assert await insert(server) == 2
            server.kill()


@pytest.mark.long
async def test_three_member_replica_set(data: Path) -> None:
    members = [MongoProcess(data / f"{n}", data / f"{n}.log", cache_gb=0.25) for n in range(3)]
    async with AsyncExitStack() as stack:
        await asyncio.gather(*(stack.enter_async_context(member) for member in members))
        async with AsyncMongoClient[Document](await form_replica_set(members), w="majority") as client:

            async def inserted() -> bool:
                try:
                    return (await client.test.documents.insert_one({})).acknowledged
                except AutoReconnect:
                    return False  # slow members elect another primary

            assert await eventually(inserted)
        for member in members:
            member.kill()


@pytest.mark.parametrize("last_words", ["error while loading shared libraries: libcurl.so.4", ""])
async def test_startup_failure_is_reported_immediately(
    data: Path, progress: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last_words: str
) -> None:
    binary = tmp_path / "mongod"
    binary.write_text(f"#!/bin/sh\necho {last_words}\nexit 127\n")
    binary.chmod(0o755)
    monkeypatch.setattr(mongo, "mongod_binary", lambda: binary)
    with pytest.raises(EmbeddedServerError, match="exit code 127") as caught:
        async with asyncio.timeout(MongoProcess.start_timeout_s / 2), embedded_mongo(data, progress.append):
            pass
    assert last_words in str(caught.value)
    assert "PLAUDIT_MONGO__URI" in str(caught.value)


async def test_full_disk_is_reported(
    data: Path, progress: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = tmp_path / "mongod"
    binary.write_text("#!/bin/sh\nkill -ABRT $$\n")  # as mongod ends on a full disk, with an empty log
    binary.chmod(0o755)
    monkeypatch.setattr(mongo, "mongod_binary", lambda: binary)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=27 * 2**20))
    with pytest.raises(EmbeddedServerError, match=r"Only 27 MB are free in .*: free some disk space") as caught:
        async with asyncio.timeout(MongoProcess.start_timeout_s / 2), embedded_mongo(data, progress.append):
            pass
    assert "OpenSSL" not in str(caught.value)


async def test_files_of_another_user_are_reported(
    data: Path, progress: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = tmp_path / "mongod"
    binary.write_text("#!/bin/sh\nexit 14\n")
    binary.chmod(0o755)
    monkeypatch.setattr(mongo, "mongod_binary", lambda: binary)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root, who may run this test, has access to all files
    expected = r"\(exit code 14\)\. .*mongod\.log is empty\.\n.* isn't yours .*`sudo chown -R \$USER .+`"
    with pytest.raises(EmbeddedServerError, match=expected):
        async with embedded_mongo(data, progress.append):
            pass


async def test_end_before_there_is_a_primary_is_reported(
    data: Path, progress: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = MongoProcess.start

    async def starts_and_ends(server: MongoProcess) -> None:
        await starts(server)
        server.kill()

    monkeypatch.setattr(MongoProcess, "start", starts_and_ends)
    with pytest.raises(EmbeddedServerError, match=r"MongoDB exited \(exit code -9\)\. The last lines of .*mongod\.log"):
        async with embedded_mongo(data, progress.append):
            pass


async def test_missing_wheel_is_reported(data: Path, progress: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(MissingPartError, match=r"'\.\[embedded\]'` in the checkout.* PLAUDIT_MONGO__URI"):
        async with embedded_mongo(data, progress.append):
            pass


async def test_unsupported_architecture_is_reported(
    data: Path, progress: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(MissingPartError, match=r"x86-64 only.* PLAUDIT_MONGO__URI"):
        async with embedded_mongo(data, progress.append):
            pass
