"""The connection to MongoDB, transactions (including those abandoned by killed processes), and kinds of errors."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Final, TypeVar

import pymongo
from pymongo import AsyncMongoClient
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ExecutionTimeout,
    InvalidOperation,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
)
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from storage.pymongo_internals import hide_documents_in_errors, wait_in_one_task

wait_in_one_task()
hide_documents_in_errors()

T = TypeVar("T")
Document = dict[str, Any]
Database = AsyncDatabase[Document]
Client = AsyncMongoClient[Document]
Session = AsyncClientSession

_DUPLICATE_KEY: Final = 11000
_INTERRUPTED: Final = 11601
SOON_S: Final = 1.0
"""Maximum seconds of a look-up that a request can do without, and the least `query_timeout` of the facade."""
_GRACE_S: Final = 0.5
"""Seconds beyond SOON_S for a query that doesn't know PyMongo's deadline."""
APP_NAME: Final = "plaudit"
"""The name of our connections and sessions on the server."""

_REFUSAL_CODES: Final = frozenset({13, 18})  # Unauthorized, AuthenticationFailed
_FINAL_CODES: Final = frozenset(
    {
        2,  # BadValue
        9,  # FailedToParse
        14,  # TypeMismatch
        28,  # PathNotViable
        52,  # DollarPrefixedFieldName
        54,  # NotSingleValueField
        66,  # ImmutableField
        67,  # CannotCreateIndex
        85,  # IndexOptionsConflict
        86,  # IndexKeySpecsConflict
        121,  # DocumentValidationFailure
        10334,  # BSONObjectTooLarge
        _DUPLICATE_KEY,
        17280,  # KeyTooLong
        17419,  # the document would grow too large
        51091,  # a regular expression that can't be compiled
    }
)


def connect(
    uri: str, database: str, *, timeout: float = 5.0, query_timeout: float | None = None
) -> tuple[Client, Database]:
    """A client and its database; nothing is sent before first use. `timeout`: seconds to find a usable server, without
    `query_timeout`: seconds for each operation, in which a server has to be found, and after which it aborts the
    operation, too.

    Writes are acknowledged by a majority and journaled, and reads see only such writes: a failover can't undo what was
    read, which commands that overtake their submission rely on.
    """
    client: Client = AsyncMongoClient(
        uri,
        appname=APP_NAME,
        tz_aware=True,
        serverSelectionTimeoutMS=int(timeout * 1000),
        connectTimeoutMS=int(timeout * 1000),
        socketTimeoutMS=60_000,
        timeoutMS=None if query_timeout is None else int(query_timeout * 1000),
        retryWrites=True,
        retryReads=True,
    )
    return client, client.get_database(
        database,
        write_concern=WriteConcern(w="majority", j=True),
        read_concern=ReadConcern("majority"),
    )


def is_database_away(error: BaseException) -> bool:
    """True for an error that a retry may overcome: MongoDB is unavailable, busy, full, or refuses us for now.

    Only errors about a document itself are final; an unknown one is retried, because waiting loses nothing.
    """
    if isinstance(error, BulkWriteError):
        # With a write concern error, the document that caused a final failure may not be on a majority yet: retry.
        failures = error.details.get("writeErrors", ())
        is_final = any(failure["code"] in _FINAL_CODES for failure in failures)
        return bool(error.details.get("writeConcernErrors")) or not is_final
    if isinstance(error, OperationFailure):
        return error.code not in _FINAL_CODES
    return isinstance(error, PyMongoError) and not isinstance(error, InvalidOperation | ConfigurationError)


def is_refused(error: BaseException) -> bool:
    """True if MongoDB rejects the login or the operation: a process waits for the right, a command reports it."""
    return isinstance(error, OperationFailure) and error.code in _REFUSAL_CODES


def short_time_limit() -> AbstractContextManager[None]:
    """A block in which all MongoDB operations together take at most SOON_S."""
    return pymongo.timeout(SOON_S)


def time_limit(database: Database, seconds: float) -> AbstractContextManager[None]:
    """A block in which all MongoDB operations together take at most this many seconds, and no longer than the
    `query_timeout` of the connection, which PyMongo ignores in such a block."""
    return pymongo.timeout(min(seconds, database.client.options.timeout or seconds))


async def result_or_default(look: Awaitable[T], default: T) -> T:
    """The result of a query within SOON_S or little more; `default` while MongoDB is unavailable or slow."""
    try:
        # PyMongo's own deadline comes first: it leaves the connection usable, while a cancellation closes it. A query
        # that is shared with other callers doesn't know this deadline, and isn't cancelled.
        async with asyncio.timeout(SOON_S + _GRACE_S):
            with short_time_limit():
                return await look
    except TimeoutError:
        return default
    except Exception as error:
        if not is_database_away(error):
            raise
        return default


def is_too_slow(error: BaseException) -> bool:
    """True if an operation exceeded its time limit, on the server or the client."""
    return isinstance(error, ExecutionTimeout | NetworkTimeout)


def is_duplicate(error: BulkWriteError) -> bool:
    """True if a bulk write failed only because of duplicate keys."""
    details = error.details
    failures = details.get("writeErrors", ())
    return not details.get("writeConcernErrors") and all(failure["code"] == _DUPLICATE_KEY for failure in failures)


async def in_transaction(database: Database, work: Callable[[Session], Awaitable[T]]) -> T:
    """Run `work` in one transaction, again from its beginning after a conflict; all of it takes effect or nothing.

    An interruption counts as a conflict: it happens to a live process that was taken for dead.
    """

    async def attempt(session: Session) -> T:
        try:
            return await work(session)
        except OperationFailure as error:
            if error.code != _INTERRUPTED:
                raise
            raise PyMongoError(str(error), error_labels=["TransientTransactionError"]) from error

    async with database.client.start_session() as session:
        return await session.with_transaction(
            attempt, read_concern=ReadConcern("snapshot"), write_concern=WriteConcern(w="majority", j=True)
        )


async def abort_abandoned(database: Database, idle: timedelta) -> int:
    """Abort our transactions that have been idle for this long, as after a process was killed; returns their number.

    MongoDB keeps them for a minute, and until then nobody else can write the documents that they wrote. A process that
    is alive but slow meets an ordinary conflict, and begins again. If the server doesn't let us list our own sessions,
    none is found.
    """
    admin = database.client.admin
    abandoned = {
        "type": "idleSession",
        "appName": APP_NAME,
        "transaction.timeInactiveMicros": {"$gte": idle // timedelta(microseconds=1)},
    }
    list_sessions = {"$currentOp": {"allUsers": False, "idleSessions": True}}
    try:
        found = await admin.aggregate([list_sessions, {"$match": abandoned}, {"$project": {"id": "$lsid.id"}}])
        sessions = [{"id": operation["id"]} async for operation in found]
        if sessions:
            await admin.command("killSessions", sessions)
    except OperationFailure as error:
        if is_database_away(error):
            raise
        return 0
    return len(sessions)
