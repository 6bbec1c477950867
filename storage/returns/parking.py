"""Commands about returns that wait for their order.

A document is the command of one record, identified by the record's position and the return. It is written while the
order is missing, and removed in the transaction that applies or refuses it: while it exists, it has had no effect.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from pymongo import ASCENDING, IndexModel, UpdateOne

from domain.commands import CommandMark, mark_from
from domain.delivery import RecordPosition, in_turn
from domain.timestamps import milliseconds
from messaging.returns import parked_return_command
from storage.database import Database, Document, Session
from storage.parking import parked_now
from storage.shapes import all_readable, log_damage

COLLECTION: Final = "parkedReturns"

INDEXES: Final = [
    IndexModel([("orderId", ASCENDING)], name="order"),
    IndexModel([("return", ASCENDING)], name="return", sparse=True),
    IndexModel([("parkedAt", ASCENDING)], name="parked"),
    IndexModel([("commandId", ASCENDING)], name="command", sparse=True),
]

MOST_OF_ORDER: Final = 1_000
MOST_BYTES_OF_ORDER: Final = 2 * 1024 * 1024
"""Limits of the commands that wait for one order, by number and bytes: far more than for orders that come, and few
enough to read for each batch."""

UNREADABLE: Final = "a parked return can't be read"
"""The message of the log about a damaged command."""

_EARLIER: Final = -1
"""The partition of commands that 0.1.0 parked: it stored no position, and parked only new returns."""

DocumentId = str | Mapping[str, str]
"""The id of a document: the position of the record and the id of the return. 0.1.0 took the ids of return and order."""


@dataclass(frozen=True, slots=True)
class ParkedReturn:
    """A command that came before its order: the ids of its return and its order, its record, and the record's value."""

    id: str
    order_id: str
    position: RecordPosition
    value: bytes
    command_id: str | None
    mark: CommandMark | None
    at: datetime | None = None
    """The time of its parking, moved on by the time in which no worker ran; None if it isn't parked yet."""
    key: DocumentId | None = None
    """The id of its document; None if it isn't parked yet."""


class ParkedValue(NamedTuple):
    """The value of a waiting command, with the ids of its document and of its order; None if that one is lost."""

    key: DocumentId
    order_id: str | None
    value: bytes


class WaitingRoom:
    """The room for commands that wait for an order: limited, because all of them are applied in one transaction."""

    def __init__(self, parked: Iterable[ParkedReturn]) -> None:
        self._numbers, self._bytes = Counter[str](), Counter[str]()
        for each in parked:
            self._add(each)

    def try_add(self, parked: ParkedReturn) -> bool:
        """Add a command if its order has room for it. Returns False if not."""
        has_room = (
            self._numbers[parked.order_id] < MOST_OF_ORDER
            and self._bytes[parked.order_id] + len(parked.value) <= MOST_BYTES_OF_ORDER
        )
        if has_room:
            self._add(parked)
        return has_room

    def _add(self, parked: ParkedReturn) -> None:
        self._numbers[parked.order_id] += 1
        self._bytes[parked.order_id] += len(parked.value)


class ReturnParking:
    """Keeps commands about returns until their order comes, or until they are given up."""

    def __init__(self, database: Database) -> None:
        self._parked = database[COLLECTION]

    async def park(self, parked: Iterable[ParkedReturn], session: Session) -> None:
        """Park commands with the server's time; one that is already parked stays as it is."""
        writes = [UpdateOne({"_id": _id(each)}, parked_now(_document(each)), upsert=True) for each in parked]
        if writes:
            await self._parked.bulk_write(writes, session=session)

    async def about(
        self, order_ids: Collection[str], return_ids: Collection[str], session: Session
    ) -> list[ParkedReturn]:
        """All commands that wait for these orders, or for the orders that these returns wait for, in order."""
        if not await self._parked.find_one({}, {"_id": 1}, session=session):
            return []  # nearly always: cheaper than sending all the ids
        orders = set(order_ids)
        if return_ids:
            found = self._parked.find({"return": {"$in": list(return_ids)}}, {"orderId": 1}, session=session)
            orders |= {document["orderId"] async for document in found if _has_order(document)}
        found = self._parked.find({"orderId": {"$in": list(orders)}}, session=session)
        return in_turn(await all_readable(found, _parked, UNREADABLE), lambda each: each.position)

    async def orders_waited_for(self, ids: Collection[str]) -> set[str]:
        """The orders among these that commands wait for."""
        found = self._parked.find({"orderId": {"$in": list(ids)}}, {"orderId": 1})
        return {document["orderId"] async for document in found}

    async def remove(self, parked: Iterable[ParkedReturn], session: Session) -> None:
        """Remove commands that have been applied or refused."""
        if ids := [_id(each) for each in parked]:
            await self._parked.delete_many({"_id": {"$in": ids}}, session=session)

    async def values(self) -> list[ParkedValue]:
        """The values of all commands that wait for an order: those of the last hour. A damaged command without a value
        is left out."""
        values = list[ParkedValue]()
        async for document in self._parked.find({}, {"orderId": 1, "value": 1}):
            if isinstance(value := document.get("value"), bytes):
                values.append(ParkedValue(document["_id"], document.get("orderId"), value))
            else:
                log_damage(UNREADABLE, id=str(document["_id"]), error="without value")
        return values

    async def rewrite(self, parked: ParkedValue, value: bytes) -> None:
        """Replace the value of a waiting command, unless it was applied or refused already."""
        waiting = {"_id": parked.key, "orderId": parked.order_id}
        await self._parked.update_one(waiting, {"$set": {"value": value}})

    async def are_overdue(self, before: datetime) -> bool:
        """True if any command has waited since before this moment."""
        return await self._parked.find_one({"parkedAt": {"$lt": before}}, {"_id": 1}) is not None

    async def overdue(self, before: datetime) -> AsyncGenerator[str]:
        """The orders that commands have waited for since before this moment, each once, those of the oldest first."""
        orders = set[str]()
        async with self._parked.find({"parkedAt": {"$lt": before}}, {"orderId": 1}).sort("parkedAt") as found:
            async for document in found:
                if _has_order(document) and document["orderId"] not in orders:
                    orders.add(document["orderId"])
                    yield document["orderId"]

    async def waiting_for(self, command_id: str) -> dict[str, CommandMark | None]:
        """The returns of a command that still wait, by id, with the mark of the command."""
        found = self._parked.find({"commandId": command_id}, {"return": 1, "returnId": 1, "commandMark": 1})
        return {_return_id(document): mark_from(document.get("commandMark")) async for document in found}


def _id(parked: ParkedReturn) -> DocumentId:
    return parked.key or f"{parked.position}/{parked.id}"


def _document(parked: ParkedReturn) -> Document:
    # Without `returnId`, a worker of 0.1.0 sends the document again, and removes it by its `_id`.
    return {
        "return": parked.id,
        "orderId": parked.order_id,
        "source": list(parked.position),
        "value": parked.value,
        **({"commandId": parked.command_id} if parked.command_id else {}),
        **({"commandMark": str(parked.mark)} if parked.mark else {}),
    }


def _has_order(document: Document) -> bool:
    return isinstance(document.get("orderId"), str)


def check_return(document: Document) -> None:
    """Raise an error of READ_ERRORS if a document can't be read."""
    parked_return_command(_parked(document).value)


def _parked(document: Document) -> ParkedReturn:
    at: Any = document.get("parkedAt")
    id, value = _return_id(document), document["value"]
    position = RecordPosition(*(document.get("source") or (_EARLIER, 0, milliseconds(at))))
    if not isinstance(id, str) or not isinstance(value, bytes) or not all(isinstance(each, int) for each in position):
        raise TypeError("a field has the wrong type")
    return ParkedReturn(
        id=id,
        order_id=document["orderId"],
        position=position,
        value=value,
        command_id=document.get("commandId"),
        mark=mark_from(document.get("commandMark")),
        at=at if isinstance(at, datetime) else None,
        key=document["_id"],
    )


def _return_id(document: Document) -> str:
    # 0.1.0 parked with `returnId`. A damaged document may have neither.
    id: str = document.get("return") or document.get("returnId") or document["_id"]
    return id
