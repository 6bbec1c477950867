"""The clock for parked commands: it counts only the time in which a worker ran that could bring what they wait for."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from pymongo import DESCENDING, ReturnDocument

from storage.backlog import PARKED
from storage.database import Database, Document, Session, in_transaction

COLLECTION: Final = "parkingClock"

_ID: Final = "workers"
_AT_ONCE: Final = 5_000
_IN_A_TURN: Final = 20


class ParkingClock:
    """Records that workers run, and adds the time in which none did to parking times. Only the server's time counts.

    The worker that sees a gap first records it at once. Parking times are moved in parts, each in one transaction, by
    any worker: all commands of a large import may be parked.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._clock = database[COLLECTION]

    async def tick(self, longest: timedelta) -> tuple[timedelta, bool]:
        """Record that a worker runs now. Returns the time in which none did, zero unless it exceeds `longest`; and True
        once all parking times are moved, before which nothing may be given up."""
        away = timedelta()
        for _ in range(_IN_A_TURN):
            gap, moves = await self._note(longest)
            away += gap
            if not moves:
                return away, True
            await in_transaction(self._database, self._move_some)
        return away, False

    async def _note(self, longest: timedelta) -> tuple[timedelta, Sequence[Document]]:
        """Record the time, and the moves of parking times by a gap: commands parked before it wait for longer."""
        limit = longest // timedelta(milliseconds=1)
        at = {"$ifNull": ["$at", "$$NOW"]}
        noted = {"gap": {"$subtract": ["$$NOW", at]}, "before": {"$subtract": ["$$NOW", limit]}, "at": "$$NOW"}
        move = {"by": "$gap", "before": "$before"}
        new = [{"in": name, **move} for name in PARKED.values()]
        moves = {"$concatArrays": [{"$ifNull": ["$moves", []]}, {"$cond": [{"$gt": ["$gap", limit]}, new, []]}]}
        found = await self._clock.find_one_and_update(
            {"_id": _ID},
            [{"$set": noted}, {"$set": {"moves": moves}}],
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        document: Document = found or {}
        gap = timedelta(milliseconds=document["gap"])
        return gap if gap > longest else timedelta(), document["moves"]

    async def _move_some(self, session: Session) -> None:
        """Apply part of the first move, latest parking times first, so that moved times aren't among those left."""
        noted = await self._clock.find_one({"_id": _ID}, session=session) or {}
        if not noted.get("moves"):
            return
        move, *others = noted["moves"]
        parked = self._database[move["in"]]
        times = {"$lt": move["before"]}
        latest = parked.find({"parkedAt": times}, {"parkedAt": 1}, session=session).sort("parkedAt", DESCENDING)
        if last := await latest.skip(_AT_ONCE - 1).limit(1).to_list():
            # With all others of exactly that time.
            times = {"$gte": last[0]["parkedAt"], **times}
            others.insert(0, {**move, "before": last[0]["parkedAt"]})
        # First, so that others that record the time wait for this transaction, rather than making it start again.
        await self._clock.update_one({"_id": _ID}, {"$set": {"moves": others}}, session=session)
        later = {"$set": {"parkedAt": {"$add": ["$parkedAt", move["by"]]}}}
        await parked.update_many({"parkedAt": times}, [later], session=session)
