"""Messages that arrived before the submission that they concern: moderation, feedback, image commands, verdicts."""

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from pymongo import ASCENDING, IndexModel, UpdateOne

from domain.commands import CommandMark, mark_from
from domain.delivery import RecordPosition, in_parts
from domain.feedback import Feedback
from domain.moderation import Moderation, parked_in_turn
from domain.verdicts import Verdict
from messaging.feedback import KIND
from messaging.feedback_parked import feedback_from, parked_feedback
from messaging.images import KIND as IMAGE
from messaging.images import ReceivedImageCommand, image_command_from, parked_image_command
from messaging.moderation import moderation_from, parked_value
from messaging.verdicts import parked_verdict, verdict_from
from storage.database import Database, Document, Session
from storage.queries import write_all
from storage.shapes import all_readable

COLLECTION: Final = "parkedCommands"
VERDICTS_COLLECTION: Final = "parkedVerdicts"

_PAGE: Final = 1_000
"""Commands that are read, changed or applied in one piece: more than a transaction, a query of their votes, or the
memory of a process could handle can wait for one review."""

_UNREADABLE: Final = "a parked command can't be read"
"""The message of the log about a damaged command."""

VERDICTS_INDEXES: Final = [
    IndexModel([("reviewId", ASCENDING)], name="review"),
    IndexModel([("parkedAt", ASCENDING)], name="parked"),
]
INDEXES: Final = [*VERDICTS_INDEXES, IndexModel([("commandId", ASCENDING)], name="command", sparse=True)]


class Parkable(Protocol):
    """A command about one review, from a record of its topic."""

    @property
    def review_id(self) -> str:
        """The id of its review."""

    @property
    def position(self) -> RecordPosition:
        """The position of its record."""


T = TypeVar("T", bound=Parkable)


@dataclass(frozen=True, slots=True)
class _Parking(Generic[T]):
    kinds: Sequence[str | None]
    """The kinds of its documents. None: no kind, as in a collection that holds nothing else, and as moderation was
    parked before there were others."""
    id: Callable[[T], str]
    value: Callable[[T], Mapping[str, Any]]
    read: Callable[[Mapping[str, Any]], T]
    collection: str = COLLECTION

    @property
    def all(self) -> Document:
        """The filter for all of its documents."""
        return {"kind": {"$in": list(self.kinds)}}


def parked_now(value: Mapping[str, Any]) -> list[Document]:
    """The update that parks a value with the server's time; what is parked already stays as it is."""
    new = {"$mergeObjects": [{"$literal": value}, {"parkedAt": "$$NOW"}, "$$ROOT"]}
    return [{"$replaceWith": {"$cond": ["$parkedAt", "$$ROOT", new]}}]


def _id(command: Parkable) -> str:
    return f"{command.position}/{command.review_id}"


MODERATION: Final[_Parking[Moderation]] = _Parking(("moderation", None), _id, parked_value, moderation_from)
FEEDBACK: Final[_Parking[Feedback]] = _Parking(
    (KIND,), lambda feedback: f"{KIND}/{_id(feedback)}", parked_feedback, feedback_from
)
IMAGES: Final[_Parking[ReceivedImageCommand]] = _Parking(
    (IMAGE,), lambda command: f"{IMAGE}/{_id(command)}", parked_image_command, image_command_from
)
VERDICTS: Final[_Parking[Verdict]] = _Parking(
    (None,), lambda verdict: str(verdict.position), parked_verdict, verdict_from, VERDICTS_COLLECTION
)
_BY_KIND: Final[Mapping[str | None, _Parking[Any]]] = {
    kind: each for each in (MODERATION, FEEDBACK, IMAGES) for kind in each.kinds
}


async def readable(parking: _Parking[T], documents: AsyncIterable[Document], limit: int | None = None) -> list[T]:
    """The commands in these documents, or the first `limit` of them, without those that can't be read, and without
    copies with another id, by which nobody would remove them."""
    return await all_readable(documents, partial(_read, parking), _UNREADABLE, limit)


def _read(parking: _Parking[T], document: Document) -> T:
    command = parking.read(document)
    if (id := parking.id(command)) != document["_id"]:
        raise ValueError(f"its id isn't {id}")
    return command


class _Turn(NamedTuple):
    """The id of a parked command, and the place that decides on its turn."""

    id: str
    position: RecordPosition
    arrived: RecordPosition | None


def _turn(parking: _Parking[Any], document: Document) -> _Turn:
    command = _read(parking, document)
    return _Turn(document["_id"], command.position, command.arrived if isinstance(command, Moderation) else None)


def check_command(document: Document) -> None:
    """Raise an error of READ_ERRORS if a document of COLLECTION can't be read, or if nobody would look for it."""
    _read(_BY_KIND[document.get("kind")], document)


def check_verdict(document: Document) -> None:
    """Raise an error of READ_ERRORS if a document of VERDICTS_COLLECTION can't be read."""
    _read(VERDICTS, document)


class ParkingRepository(Generic[T]):
    """Keeps commands of one kind until their review is stored, or until they are given up."""

    def __init__(self, database: Database, parking: _Parking[T]) -> None:
        self._parked = database[parking.collection]
        self._parking = parking
        self._id = parking.id

    async def park(self, commands: Iterable[T]) -> None:
        """Park commands with the server's time; one that is already parked stays as it is."""
        writes = [
            UpdateOne({"_id": self._id(command)}, parked_now(self._parking.value(command)), upsert=True)
            for command in commands
        ]
        await write_all(self._parked, writes)

    async def are_any(self) -> bool:
        """True if any command of any kind is parked, which is rare."""
        return await self._parked.find_one({}, {"_id": 1}) is not None

    async def about(self, review_ids: Collection[str]) -> AsyncGenerator[list[T]]:
        """The parked commands about these reviews in the order in which they apply, _PAGE at a time."""
        if not review_ids or not await self.are_any():
            return  # nearly always: cheaper than sending all the ids
        wanted = {"reviewId": {"$in": list(review_ids)}, **self._parking.all}
        found = self._parked.find(wanted, batch_size=_PAGE)
        turns = await all_readable(found, partial(_turn, self._parking), _UNREADABLE)
        for part in in_parts(parked_in_turn(turns), _PAGE):
            ids = [turn.id for turn in part]
            commands = await readable(self._parking, self._parked.find({"_id": {"$in": ids}}, batch_size=_PAGE))
            by_id = {self._id(command): command for command in commands}
            yield [by_id[id] for id in ids if id in by_id]

    async def remove(self, commands: Iterable[T]) -> None:
        """Remove commands that have been answered."""
        if ids := [self._id(command) for command in commands]:
            await self._parked.delete_many({"_id": {"$in": ids}})

    async def take(self, commands: Iterable[T], session: Session) -> list[T]:
        """Remove commands within a transaction; returns those that nobody else has removed before.

        Of two concurrent transactions, one meets a conflict, and finds nothing when it is repeated.
        """
        by_id = {self._id(command): command for command in commands}
        wanted = {"_id": {"$in": list(by_id)}}
        stored = {document["_id"] async for document in self._parked.find(wanted, {"_id": 1}, session=session)}
        await self._parked.delete_many(wanted, session=session)
        return [command for id, command in by_id.items() if id in stored]

    async def take_among(self, commands: Sequence[T], parked: Sequence[T], session: Session) -> Sequence[T]:
        """Remove the `parked` ones of these commands within a transaction; returns the commands without those that
        somebody else has removed before."""
        if not parked:
            return commands
        left = {self._id(command) for command in await self.take(parked, session)}
        gone = {self._id(command) for command in parked} - left
        return [command for command in commands if self._id(command) not in gone]

    async def are_overdue(self, before: datetime) -> bool:
        """True if any command was parked before this moment."""
        return await self._parked.find_one(self._overdue(before), {"_id": 1}) is not None

    async def overdue(self, before: datetime, limit: int, except_reviews: Collection[str] = ()) -> list[T]:
        """At most `limit` readable commands parked before this moment, oldest first, except about `except_reviews`."""
        wanted = self._overdue(before) | ({"reviewId": {"$nin": list(except_reviews)}} if except_reviews else {})
        async with self._parked.find(wanted, batch_size=limit).sort("parkedAt") as found:
            return await readable(self._parking, found, limit)

    async def wait_anew(self, commands: Iterable[T]) -> None:
        """Restart the wait of commands that are still parked: they count as parked now, or keep a later time."""
        restart = {"parkedAt": {"$max": ["$parkedAt", "$$NOW"]}}
        for ids in in_parts(map(self._id, commands), _PAGE):
            await self._parked.update_many({"_id": {"$in": ids}}, [{"$set": restart}])

    async def waiting_for(self, command_id: str) -> dict[str, CommandMark | None]:
        """The items of a command of any kind that still wait, by the id of the review or image, with its mark."""
        found = self._parked.find({"commandId": command_id}, {"reviewId": 1, "imageId": 1, "commandMark": 1})
        return {
            document.get("imageId") or document["reviewId"]: mark_from(document.get("commandMark"))
            async for document in found
        }

    def _overdue(self, before: datetime) -> Document:
        return {"parkedAt": {"$lt": before}, **self._parking.all}
