"""How to reach MongoDB, and how to tell that it is away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from pymongo import AsyncMongoClient, IndexModel
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import (
    BulkWriteError,
    ConnectionFailure,
    ExecutionTimeout,
    OperationFailure,
    PyMongoError,
    WTimeoutError,
)
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

T = TypeVar("T")
Document = dict[str, Any]
Database = AsyncDatabase[Document]
Client = AsyncMongoClient[Document]
Session = AsyncClientSession

_DUPLICATE_KEY: Final = 11000
APP_NAME: Final = "plaudit"
"""How our connections and sessions are told from those of others at the server."""

_BUSY_CODES: Final = frozenset(
    {
        50,  # MaxTimeMSExpired
        112,  # WriteConflict
        134,  # ReadConcernMajorityNotAvailableYet
        251,  # NoSuchTransaction: the server was restarted within it
        262,  # ExceededTimeLimit
        14031,  # OutOfDiskSpace
    }
)
_BUSY_LABELS: Final = ("TransientTransactionError", "UnknownTransactionCommitResult", "RetryableWriteError")


def connect(uri: str, database: str, *, timeout: float = 5.0) -> tuple[Client, Database]:
    """A client and its database. Nothing is sent until first use; `timeout` seconds to find a usable server.

    Writes are acknowledged by a majority and journaled, reads see only such writes: what was seen can't be undone
    by a failover, which commands that overtake their submission rely on.
    """
    client: Client = AsyncMongoClient(
        uri,
        appname=APP_NAME,
        tz_aware=True,
        serverSelectionTimeoutMS=int(timeout * 1000),
        connectTimeoutMS=int(timeout * 1000),
        socketTimeoutMS=60_000,
        retryWrites=True,
        retryReads=True,
    )
    return client, client.get_database(
        database,
        write_concern=WriteConcern(w="majority", j=True),
        read_concern=ReadConcern("majority"),
    )


def is_database_away(error: BaseException) -> bool:
    """Whether the error means that MongoDB is away or busy, and the same will work later."""
    if isinstance(error, ConnectionFailure | ExecutionTimeout | WTimeoutError):
        return True
    if isinstance(error, PyMongoError) and any(error.has_error_label(label) for label in _BUSY_LABELS):
        return True
    return isinstance(error, OperationFailure) and error.code in _BUSY_CODES


def is_duplicate(error: BulkWriteError) -> bool:
    """Whether a bulk write failed for nothing but unique keys that were taken."""
    details = error.details
    failures = details.get("writeErrors", ())
    return not details.get("writeConcernErrors") and all(f["code"] == _DUPLICATE_KEY for f in failures)


async def in_transaction(database: Database, work: Callable[[Session], Awaitable[T]]) -> T:
    """Run `work` in one transaction, again from its beginning after a conflict; all of it takes effect or nothing."""
    async with database.client.start_session() as session:
        return await session.with_transaction(
            work, read_concern=ReadConcern("snapshot"), write_concern=WriteConcern(w="majority", j=True)
        )


async def create_indexes(database: Database, indexes: dict[str, list[IndexModel]]) -> None:
    """Create what is missing of these indexes, by collection."""
    for collection, models in indexes.items():
        await database[collection].create_indexes(models)
