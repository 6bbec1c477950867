"""Other users of the machine: files they can read, and servers they can connect to."""

import json
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError
from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure

from devservers.broker import Broker, embedded_kafka
from devservers.errors import EmbeddedServerError, WrongFolderError
from devservers.mongo import MongoProcess, embedded_mongo, form_replica_set
from devservers.private import private_folder
from messaging.kafka.administration import admin_client
from messaging.kafka.connection import KafkaConnection
from tests.support.documents import ROOT, blocks_of
from tests.support.processes import Marked
from tests.support.up_command import Up
from tests.support.walks import comparable_lines

Document = dict[str, Any]

NOT_ALLOWED = 13


def open_to_others(folder: Path) -> list[Path]:
    """Paths that others could access if the folder itself were open."""
    # rglob would fail on a folder that a server removes meanwhile.
    within = [Path(parent, name) for parent, folders, files in os.walk(folder) for name in (*folders, *files)]
    assert within
    return [path for path in (folder, *within) if is_open_to_others(path)]


def is_open_to_others(path: Path) -> bool:
    """True if other users may access the file; False if the server has removed it meanwhile."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISLNK(mode) and bool(mode & 0o077)


async def assert_password_required(uri: str) -> None:
    """Assert that a client without a password can't read, write, or create a user."""
    address = urlsplit(uri).netloc.rpartition("@")[2]
    async with AsyncMongoClient[Document](f"mongodb://{address}/?replicaSet=plaudit") as client:
        for attempt in (
            lambda: client.plaudit.apiKeys.insert_one({"_id": "nobody's"}),
            lambda: client.plaudit.reviews.find_one(),
            lambda: client.list_database_names(),
            lambda: client.admin.command("createUser", "nobody", pwd="x", roles=["root"]),
            lambda: client.admin.command("replSetGetConfig"),
        ):
            with pytest.raises(OperationFailure) as refused:
                await attempt()
            assert refused.value.code == NOT_ALLOWED


@asynccontextmanager
async def ready(up: Up) -> AsyncIterator[Document]:
    """Run `plaudit up`; yields the content of endpoints.json."""
    async with up.started() as process:
        await up.says(process, "Ctrl-C stops everything")
        yield json.loads(up.endpoints.read_text())
    await up.nothing_is_left()


@pytest.mark.long
@pytest.mark.usefixtures("kafka_can_run")
async def test_up_data_is_private(tmp_path: Path, marked: Marked) -> None:
    # Empty addresses, as in a template of .env.
    up = Up(tmp_path, marked, "kafka", PLAUDIT_MONGO__URI="", PLAUDIT_KAFKA__BOOTSTRAP_SERVERS="")
    data = up.endpoints.parent
    data.mkdir(mode=0o755)
    data.chmod(0o755)  # as the version before created it
    async with ready(up) as endpoints:
        assert open_to_others(data) == []
        await assert_password_required(endpoints["mongo"])
        async with AsyncMongoClient[Document](endpoints["mongo"]) as client:
            assert await client[endpoints["database"]].stores.count_documents({}) == 1
        # Upstream systems need only the address, and a warning says that so does everyone.
        async with admin_client(KafkaConnection(endpoints["kafka"])):
            pass
        output = up.log.read_text()
        assert f"Removed the access of other users to {data}" in output
        (shown,) = [
            block.text
            for block in blocks_of(ROOT / "README.md")
            if block.words == "output" and block.language == "text"
        ]
        assert "Every user of this machine can read and write Kafka." in shown
        assert [line for line in comparable_lines(shown) if line not in comparable_lines(output)] == []
        assert urlsplit(endpoints["mongo"]).password not in output


@pytest.mark.slow
@pytest.mark.usefixtures("kafka_can_run")
async def test_kafka_with_password(tmp_path: Path, marked: Marked) -> None:
    up = Up(tmp_path, marked, "kafka", PLAUDIT_EMBEDDED__KAFKA_AUTH="true")
    async with ready(up) as endpoints:
        anonymous = AIOKafkaAdminClient(bootstrap_servers=endpoints["kafka"])
        with pytest.raises(KafkaConnectionError):
            await anonymous.start()
        await anonymous.close()
        sasl = endpoints["kafkaSasl"]
        authenticated = AIOKafkaAdminClient(
            bootstrap_servers=endpoints["kafka"],
            security_protocol=sasl["securityProtocol"],
            sasl_mechanism=sasl["mechanism"],
            sasl_plain_username=sasl["username"],
            sasl_plain_password=sasl["password"],
        )
        await authenticated.start()
        assert "plaudit.review-submissions" in await authenticated.list_topics()
        await authenticated.close()
        beside = up.run("dlq", "list")
        assert beside.returncode == 0, beside.stderr
        assert "Every user of this machine" not in up.log.read_text()
        assert sasl["password"] not in up.log.read_text()


async def test_tansu_refuses_a_password(data: Path, progress: list[str]) -> None:
    with pytest.raises(EmbeddedServerError, match="Tansu doesn't support passwords"):
        async with embedded_kafka(data, progress.append, broker=Broker.TANSU, with_password=True):
            pass


@pytest.mark.long
@pytest.mark.usefixtures("marked")
async def test_data_without_password_is_secured(data: Path, progress: list[str]) -> None:
    async with (
        MongoProcess(data / "mongo", data / "logs" / "mongod.log") as before,
        AsyncMongoClient[Document](await form_replica_set([before])) as client,
    ):
        await client.plaudit.reviews.insert_one({"_id": "kept"})
    for path in (data / "mongo", *(data / "mongo").rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for _ in range(2):
        async with embedded_mongo(data, progress.append) as server:
            await assert_password_required(server.uri)
            async with AsyncMongoClient[Document](server.uri) as client:
                assert await client.plaudit.reviews.find_one() == {"_id": "kept"}
        assert stat.S_IMODE((data / "mongo").stat().st_mode) == 0o700
        # A lost password: the owner of the folder gets a new one.
        (data / "mongo" / "password").unlink()


def test_shared_folder_is_refused(tmp_path: Path, progress: list[str]) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(WrongFolderError, match="shared by all users of this machine"):
        private_folder(shared, progress.append)
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777
    assert progress == []


@pytest.mark.parametrize("own", [["lock"], ["kafka", "mongo"]], ids=["now", "without lock"])
def test_folder_with_foreign_files_keeps_its_mode(tmp_path: Path, progress: list[str], own: list[str]) -> None:
    folder = tmp_path / "srv"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    for name in ("theirs", *own[1:]):
        (folder / name).touch()
    known_by = [{"lock"}, {"kafka", "mongo"}]
    with pytest.raises(WrongFolderError, match="contains other files"):
        private_folder(folder, progress.append, known_by=known_by)
    assert (stat.S_IMODE(folder.stat().st_mode), progress) == (0o755, [])
    (folder / own[0]).touch()
    private_folder(folder, progress.append, known_by=known_by)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert progress == [f"Removed the access of other users to {folder}; its mode was 755"]
