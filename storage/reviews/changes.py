"""Changes of reviews from MongoDB's change stream, and how far they have been relayed to Kafka.

The relay also takes approved reviews out of the queue (`storage.reviews.queue` has an example): it reads the reviews
that changed (`states`), publishes them, and removes those that are `leaving` (`leave_queue`). That is a change, too,
but this stream leaves it out.
"""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from time import monotonic
from typing import Final, NamedTuple
from uuid import UUID

from bson import Timestamp, decode, encode
from pymongo import ASCENDING
from pymongo.asynchronous.change_stream import AsyncCollectionChangeStream
from pymongo.errors import OperationFailure, PyMongoError
from uuid_utils import uuid7

from domain.reviews import Review
from storage.database import Database, Document, Session
from storage.queries import ONE_ANSWER
from storage.reviews.documents import review_from
from storage.reviews.queue import LEFT_THE_QUEUE, Queue, has_to_leave
from storage.reviews.repository import COLLECTION as REVIEWS
from storage.reviews.search import SINCE_EVER
from storage.reviews.shape import REVIEW
from storage.shapes import is_whole

COLLECTION: Final = "relays"

BATCH: Final = 500
"""The maximum number of reviews in one batch: 40 MB at most."""

_ID: Final = "reviews"
_WAIT_MS: Final = 250
_GATHER_S: Final = 0.1
_LOST_CODES: Final = frozenset(
    {
        9,  # FailedToParse: not a token of this server
        15,  # Overflow: the same
        136,  # CappedPositionLost
        260,  # InvalidResumeToken
        280,  # ChangeStreamFatalError: the token isn't in this oplog
        286,  # ChangeStreamHistoryLost
    }
)
_ENDING_OPERATIONS: Final = frozenset({"drop", "rename", "dropDatabase", "invalidate"})
_PIPELINE: Final[list[Document]] = [
    {"$match": {"$nor": [LEFT_THE_QUEUE]}},
    {"$project": {"operationType": 1, "documentKey": 1, "clusterTime": 1}},
]

_WITHOUT_MARKS: Final[Document] = dict.fromkeys(("writtenAt", "messages", "storedAt", "seen", "verdictsSeen"), 0)
"""The projection without marks of records and messages and the time of storing, an eighth of a new review."""


class HistoryLostError(Exception):
    """The changes since the last one that was relayed are no longer available: all reviews have to be read."""


class States(NamedTuple):
    """The current states of reviews."""

    present: list[Review]
    gone: list[str]
    """The ids of deleted reviews. Those of refused submissions were never published, unless it is known that they
    were."""
    leaving: list[str]
    """The ids of approved reviews that are still in the queue."""


class Page(NamedTuple):
    """Reviews by id, without damaged ones; `last` is None after the end."""

    states: States
    last: str | None


class Changes(NamedTuple):
    """The ids of reviews that changed, the token to resume from, and the time of the last change."""

    ids: set[str]
    token: bytes | None
    at: datetime | None
    is_full: bool
    """True if there were at least BATCH changes, so that more are likely to wait."""


@dataclass(frozen=True, slots=True)
class Republication:
    """A republication of all reviews that is in progress: the request, and how far it is."""

    request: str
    after: str | None = ""
    """The last id published; None once all are, while the topic is searched for ids that the database doesn't have."""
    published: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of the relay."""

    token: bytes | None = None
    """The resume token up to which all changes have been relayed; None: nothing yet."""
    collection: bytes | None = None
    """The UUID of the collection that the token belongs to."""
    republication: Republication | None = None
    done: str | None = None
    """The last request for a republication that was fulfilled."""
    wanted: str | None = None
    """The last request for a republication that was made."""
    missing: tuple[str, ...] = ()
    """Ids of reviews that were in the topic when a relay began, and are unknown to the database since."""


class Relayed(NamedTuple):
    """The state of the topic compared with the database."""

    until: datetime | None
    """The moment before which all changes have been relayed; None if there never was a relay."""
    missing: int
    """Number of reviews in the topic that the database lacks, as after a restore (`Progress.missing`)."""


class RelayProgress:
    """Keeps the progress of the relay in the database that it relays, so that both are restored together."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._relays = database[COLLECTION]

    async def load(self) -> Progress:
        """The progress recorded last."""
        document = await self._relays.find_one({"_id": _ID}) or {}
        under_way = document.get("republication")
        return Progress(
            document.get("token"),
            document.get("collection"),
            Republication(under_way["request"], under_way["after"], under_way["published"]) if under_way else None,
            document.get("done"),
            document.get("wanted"),
            tuple(document.get("missing", ())),
        )

    async def note(self, progress: Progress, at: datetime) -> None:
        """Record the progress once Kafka has everything up to it; changes before `at` are relayed."""
        under_way = progress.republication
        fields: Document = {
            "token": progress.token,
            "collection": progress.collection,
            "republication": under_way and asdict(under_way),
            "done": progress.done,
            "at": at,
        }
        await self._relays.update_one({"_id": _ID}, {"$set": fields}, upsert=True)

    async def note_missing(self, ids: Collection[str]) -> None:
        """Record that these reviews of the topic are unknown to the database."""
        await self._relays.update_one({"_id": _ID}, {"$addToSet": {"missing": {"$each": sorted(ids)}}})

    async def forget_missing(self, ids: Collection[str]) -> None:
        """Record that these reviews are no longer missing: once deleted, their ids are forgotten in time."""
        await self._relays.update_one({"_id": _ID}, {"$pullAll": {"missing": sorted(ids)}})

    async def relayed(self) -> Relayed:
        """The state of the topic compared with the database."""
        document = await self._relays.find_one({"_id": _ID}, {"at": 1, "missing": 1}) or {}
        return Relayed(document.get("at"), len(document.get("missing", ())))

    async def request_republication(self) -> str:
        """Request that the relay publish all reviews anew. Returns the request, which sorts after all others, whatever
        the clocks by which those were made."""
        progress, request = await self.load(), str(uuid7())
        under_way = progress.republication.request if progress.republication else None
        last = max(filter(None, (progress.done, progress.wanted, under_way)), default="")
        if last >= request:
            request = str(UUID(int=UUID(last).int + 1))
        await self._relays.update_one({"_id": _ID}, {"$max": {"wanted": request}}, upsert=True)
        return request

    async def collection_uuid(self) -> bytes | None:
        """The UUID of the collection of reviews, a new one after a drop or a restore; None without a collection."""
        found = await self._database.list_collections(filter={"name": REVIEWS})
        for collection in await found.to_list():
            return bytes(collection["info"]["uuid"])
        return None

    async def has_reviews(self) -> bool:
        """True if any review, or refused submission, is stored."""
        return await self._database[REVIEWS].find_one({}, {"_id": 1}) is not None


class ReviewChanges:
    """The change stream of reviews, and reviews as they are when it is read.

    Reads are causally consistent with the stream: a review is never older than the change read before, even after a
    failover.
    """

    def __init__(self, database: Database, session: Session, stream: AsyncCollectionChangeStream[Document]) -> None:
        self._reviews = database[REVIEWS]
        self._queue = Queue(database)
        self._session = session
        self._stream = stream

    @classmethod
    @asynccontextmanager
    async def open(cls, database: Database, token: bytes | None) -> "AsyncIterator[ReviewChanges]":
        """Open the stream of changes after a token, or from now on without one. Raises HistoryLostError."""
        async with database.client.start_session(causal_consistency=True) as session:
            # After a write of its own, the session reads nothing older than what others have read and published before.
            opened = {"$currentDate": {"opened": True}}
            await database[COLLECTION].update_one({"_id": _ID}, opened, upsert=True, session=session)
            try:
                stream = await database[REVIEWS].watch(
                    _PIPELINE,
                    resume_after=decode(token) if token else None,
                    max_await_time_ms=_WAIT_MS,
                    batch_size=BATCH,
                    session=session,
                )
            except PyMongoError as error:
                raise stream_error(error) from error
            async with stream:
                yield cls(database, session, stream)

    async def next(self) -> Changes:
        """The next changes, at most BATCH; none if none come within a moment. Raises HistoryLostError."""
        ids: set[str] = set()
        last: Timestamp | None = None
        count, end = 0, float("inf")
        try:
            while len(ids) < BATCH and monotonic() < end:
                change = await self._stream.try_next()
                if change is None:
                    break
                if not count:
                    # From the first change on: a slow server may take longer than this for a batch of its answer.
                    end = monotonic() + _GATHER_S
                count += 1
                if change["operationType"] in _ENDING_OPERATIONS:
                    raise HistoryLostError(f"the collection of reviews was changed as a whole: {change}")
                # Ids of other types are of documents that somebody inserted by hand.
                if isinstance(id := change["documentKey"]["_id"], str):
                    ids.add(id)
                last = change["clusterTime"]
        except PyMongoError as error:
            raise stream_error(error) from error
        token = self._stream.resume_token
        at = last.as_datetime() if last else None
        return Changes(ids, encode(token) if token else None, at, is_full=count >= BATCH)

    async def states(self, ids: Collection[str], *, are_published: bool = False) -> States:
        """The current states of these reviews. With `are_published`, those of refused submissions are gone, too: after
        a restore, the present rules may refuse a review that was published before."""
        if not ids:
            return States([], [], [])
        present = []
        gone = set(ids)
        leaving = []
        wanted = {"_id": {"$in": list(ids)}}
        found = self._reviews.find(wanted, _WITHOUT_MARKS, batch_size=ONE_ANSWER, session=self._session)
        async for document in found:
            # A damaged review keeps its state in the topic, from which it is mended.
            if is_whole(REVIEW, document):
                present.append(review_from(document))
            if "goneAt" not in document or ("refused" in document and not are_published):
                gone.discard(document["_id"])
            if has_to_leave(document):
                leaving.append(document["_id"])
        return States(present, sorted(gone), leaving)

    async def known(self, ids: Collection[str]) -> set[str]:
        """The ids among these that a review, a refused submission or the placeholder of a deleted review has."""
        found = self._reviews.find({"_id": {"$in": list(ids)}}, {"_id": 1}, session=self._session)
        return {document["_id"] async for document in found}

    async def leave_queue(self, states: States) -> None:
        """Take approved reviews out of the queue."""
        await self._queue.leave(states.leaving, self._session)

    async def page(self, after: str) -> Page:
        """The first BATCH reviews with ids after `after`, by id."""
        behind = {"_id": {"$gt": after}, "createdDate": {"$gte": SINCE_EVER}}
        found = self._reviews.find(behind, _WITHOUT_MARKS, session=self._session)
        documents = await found.sort("_id", ASCENDING).hint("_id_").limit(BATCH).to_list()
        whole = [review_from(document) for document in documents if is_whole(REVIEW, document)]
        leaving = [document["_id"] for document in documents if has_to_leave(document)]
        return Page(States(whole, [], leaving), documents[-1]["_id"] if documents else None)


def stream_error(error: PyMongoError) -> Exception:
    """The error to raise for an error of the stream: HistoryLostError if no retry can overcome it."""
    if isinstance(error, OperationFailure) and error.code in _LOST_CODES:
        return HistoryLostError(f"{error}"[:300])
    return error
