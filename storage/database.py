"""The connection to MongoDB, transactions (including those abandoned by killed processes), and kinds of errors."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Final, TypeVar

import pymongo
from pymongo import ASCENDING, AsyncMongoClient, IndexModel, ReplaceOne, UpdateMany, UpdateOne
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection
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
IDS_AT_ONCE: Final = 500
ONE_ANSWER: Final = 1_001
"""The batch size of a query by a thousand ids. By default the first batch has 101 documents, and a second request
fetches the rest. One more than wanted, so that the server knows that the cursor is exhausted."""
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


async def ids_of_objects(collection: AsyncCollection[Document], matching: Document) -> AsyncIterator[str]:
    """The ids of the objects of all matching documents, ascending and distinct, however many."""
    pipeline = [{"$match": matching}, {"$group": {"_id": "$entityId"}}, {"$sort": {"_id": 1}}]
    found = await collection.aggregate(pipeline, allowDiskUse=True, batchSize=IDS_AT_ONCE)
    return (each["_id"] async for each in found if each["_id"] is not None)


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


def one_of(values: Collection[Any]) -> Any:
    """The condition that a field has one of these values. MongoDB plans better for a single value without `$in`."""
    several = list(values)
    return several[0] if len(several) == 1 else {"$in": several}


def in_range(lowest: Any, highest: Any) -> Document:
    """The condition that a field is within these bounds, both inclusive; None: no bound."""
    bounds = {"$gte": lowest, "$lte": highest}
    return {operator: bound for operator, bound in bounds.items() if bound is not None}


def in_stores(stores: Collection[str] | None) -> Document:
    """The condition that a document belongs to one of these stores; None: to any store, or to none."""
    return {} if stores is None else {"storeId": one_of(stores)}


def own_values(values: Mapping[Any, Document]) -> list[Document]:
    """An update of many documents that sets fields of each to its own values, by `_id`.

    The server turns a constant array in $indexOfArray into a hash map: one look-up for each document, and one update
    for any mix of values. Measured at 1.3 times the speed of a bulk of single updates.
    """
    place = {"$indexOfArray": [{"$literal": list(values)}, "$_id"]}
    own = {"$arrayElemAt": [{"$literal": list(values.values())}, place]}
    return [{"$replaceWith": {"$mergeObjects": ["$$ROOT", own]}}]


def update_of(fields: Document, optional: Document) -> Document:
    """An update that sets these fields, and those optional ones that have a value, and removes the other optional
    ones."""
    present = {**fields, **{name: value for name, value in optional.items() if value}}
    missing = {name: "" for name, value in optional.items() if not value}
    return {operator: each for operator, each in (("$set", present), ("$unset", missing)) if each}


def expiry_index(field: str, days: int, *, name: str = "expiry", **options: Any) -> IndexModel:
    """An index by which documents are removed this many days after the time in that field."""
    return IndexModel([(field, ASCENDING)], name=name, expireAfterSeconds=days * 86_400, **options)


async def write_all(
    collection: AsyncCollection[Document],
    writes: Sequence[UpdateOne | UpdateMany | ReplaceOne[Document]],
    session: Session | None = None,
) -> None:
    """Execute these writes, in any order. Without any, nothing is sent: MongoDB refuses an empty bulk."""
    if writes:
        await collection.bulk_write(writes, ordered=False, session=session)


async def insert_if_free(collection: AsyncCollection[Document], documents: Sequence[Document]) -> set[int]:
    """Insert those of these documents whose ids are free. Returns the indexes of the others; nothing is changed in the
    documents that have their ids."""
    try:
        if documents:
            await collection.insert_many(documents, ordered=False)
    except BulkWriteError as error:
        if not is_duplicate(error):
            raise
        return {failure["index"] for failure in error.details["writeErrors"]}
    return set()


async def in_batches(found: AsyncIterator[T], size: int) -> AsyncIterator[list[T]]:
    """The items in lists of at most `size`; other tasks get a turn in between."""
    batch: list[T] = []
    async for each in found:
        batch.append(each)
        if len(batch) == size:
            yield batch
            batch = []
            await asyncio.sleep(0)
    if batch:
        yield batch


async def stored_bytes(collection: AsyncCollection[Document], conditions: Document | None = None) -> int:
    """The total size in bytes of a collection's documents that match the filter; of all by default."""
    total: Document = {"$group": {"_id": None, "size": {"$sum": {"$bsonSize": "$$ROOT"}}}}
    found = await (await collection.aggregate([{"$match": conditions or {}}, total])).to_list()
    return found[0]["size"] if found else 0
