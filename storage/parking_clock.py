"""The time that counts for what is parked: that in which a worker was there to bring what it waits for."""

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
    """Notes that workers work, and leaves out of parking times how long none did. Time is the server's alone.

    A gap is noted at once, by the one of several workers that sees it. The parking times follow in parts, each one
    transaction, by whoever comes by: all of a large import may be parked.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._clock = database[COLLECTION]

    async def tick(self, longest: timedelta) -> tuple[timedelta, bool]:
        """Note that a worker works now. Returns for how long none did where that is more than `longest`, else zero; and
        True once all parking times have followed, before which nothing is to be given up."""
        away = timedelta()
        for _ in range(_IN_A_TURN):
            gap, moves = await self._note(longest)
            away += gap
            if not moves:
                return away, True
            await in_transaction(self._database, self._move_some)
        return away, False

    async def _note(self, longest: timedelta) -> tuple[timedelta, Sequence[Document]]:
        """Note the time, and the moves of parking times that a gap makes: what was parked before waits for longer."""
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
        """Move parking times of the first move, the latest ones first: what is moved isn't among the earlier ones."""
        noted = await self._clock.find_one({"_id": _ID}, session=session) or {}
        if not noted.get("moves"):
            return
        move, *others = noted["moves"]
        parked, times = self._database[move["in"]], {"$lt": move["before"]}
        some = parked.find({"parkedAt": times}, {"parkedAt": 1}, session=session).sort("parkedAt", DESCENDING)
        if last := await some.skip(_AT_ONCE - 1).limit(1).to_list():
            # With all of that very time.
            times = {"$gte": last[0]["parkedAt"], **times}
            others.insert(0, {**move, "before": last[0]["parkedAt"]})
        # First: others that note the time wait then, instead of having all of it done again.
        await self._clock.update_one({"_id": _ID}, {"$set": {"moves": others}}, session=session)
        later = {"$set": {"parkedAt": {"$add": ["$parkedAt", move["by"]]}}}
        await parked.update_many({"parkedAt": times}, [later], session=session)
