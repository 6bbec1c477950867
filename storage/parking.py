"""Messages that arrived before the submission that they concern: moderation, feedback, image commands, verdicts."""

from collections.abc import AsyncIterable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from pymongo import ASCENDING, IndexModel, UpdateOne

from domain.commands import CommandMark, mark_from
from domain.delivery import RecordPosition, in_parts, in_turn
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
"""Commands that are read or changed in one piece, without other work of the process in between."""

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
    kind: str | None
    """None: documents without a kind, of a collection that holds nothing else."""
    id: Callable[[T], str]
    value: Callable[[T], Mapping[str, Any]]
    read: Callable[[Mapping[str, Any]], T]
    in_turn: Callable[[Iterable[T]], list[T]]
    collection: str = COLLECTION


def parked_now(value: Mapping[str, Any]) -> list[Document]:
    """The update that parks a value with the server's time; what is parked already stays as it is."""
    new = {"$mergeObjects": [{"$literal": value}, {"parkedAt": "$$NOW"}, "$$ROOT"]}
    return [{"$replaceWith": {"$cond": ["$parkedAt", "$$ROOT", new]}}]


def _id(command: Parkable) -> str:
    return f"{command.position}/{command.review_id}"


def _in_turn(commands: Iterable[T]) -> list[T]:
    return in_turn(commands, lambda command: command.position)


MODERATION: Final[_Parking[Moderation]] = _Parking("moderation", _id, parked_value, moderation_from, parked_in_turn)
FEEDBACK: Final[_Parking[Feedback]] = _Parking(
    KIND, lambda feedback: f"{KIND}/{_id(feedback)}", parked_feedback, feedback_from, _in_turn
)
IMAGES: Final[_Parking[ReceivedImageCommand]] = _Parking(
    IMAGE, lambda command: f"{IMAGE}/{_id(command)}", parked_image_command, image_command_from, _in_turn
)
VERDICTS: Final[_Parking[Verdict]] = _Parking(
    None, lambda verdict: str(verdict.position), parked_verdict, verdict_from, _in_turn, VERDICTS_COLLECTION
)
_BY_KIND: Final[Mapping[str | None, _Parking[Any]]] = {each.kind: each for each in (MODERATION, FEEDBACK, IMAGES)}


async def readable(parking: _Parking[T], documents: AsyncIterable[Document], limit: int | None = None) -> list[T]:
    """The commands in these documents, or the first `limit` of them, without those that can't be read, and without
    copies with another id, by which nobody would remove them."""
    return await all_readable(documents, partial(_read, parking), "a parked command can't be read", limit)


def _read(parking: _Parking[T], document: Document) -> T:
    command = parking.read(document)
    if (id := parking.id(command)) != document["_id"]:
        raise ValueError(f"its id isn't {id}")
    return command


def check_command(document: Document) -> None:
    """Raise an error of READ_ERRORS if a document of COLLECTION can't be read, or if nobody would look for it."""
    _read(_BY_KIND[document["kind"]], document)


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

    async def about(self, review_ids: Collection[str]) -> list[T]:
        """The parked commands about these reviews, in the order in which they apply."""
        if not review_ids or not await self._parked.find_one({}, {"_id": 1}):
            return []  # nearly always: cheaper than sending all the ids
        wanted = {"reviewId": {"$in": list(review_ids)}, "kind": self._parking.kind}
        return self._parking.in_turn(await readable(self._parking, self._parked.find(wanted, batch_size=_PAGE)))

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

    async def parked_before(self, moment: datetime, limit: int, except_reviews: Collection[str] = ()) -> list[T]:
        """At most `limit` readable commands parked before this moment, oldest first, except about `except_reviews`."""
        overdue: Document = {"parkedAt": {"$lt": moment}, "kind": self._parking.kind}
        if except_reviews:
            overdue["reviewId"] = {"$nin": list(except_reviews)}
        async with self._parked.find(overdue, batch_size=limit).sort("parkedAt") as found:
            return await readable(self._parking, found, limit)

    async def are_any_before(self, moment: datetime) -> bool:
        """True if any command was parked before this moment."""
        overdue = {"parkedAt": {"$lt": moment}, "kind": self._parking.kind}
        return await self._parked.find_one(overdue, {"_id": 1}) is not None

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
