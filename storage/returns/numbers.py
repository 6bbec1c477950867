"""Numbers of returns, unique within their store: counted by series, and checked by the index of returns.

Stores with the same template share its series, as in 0.1.0, so that its workers can run beside ours.
"""

from collections.abc import Callable
from typing import Final

from pymongo import ReturnDocument
from pymongo.errors import BulkWriteError

from storage.database import Database, is_duplicate
from storage.returns.repository import COLLECTION as RETURNS

COLLECTION: Final = "counters"

_MOST_AT_ONCE: Final = 1_000


class ReturnNumbers:
    """Hands out numbers; unused ones leave gaps."""

    def __init__(self, database: Database) -> None:
        self._counters = database[COLLECTION]
        self._returns = database[RETURNS]

    async def take(self, series: str, count: int, number: Callable[[int], str], store_id: str | None) -> list[str]:
        """Take `count` numbers of a series that no return of the store has; `number` formats a sequence number.

        Each is handed out once in its series. Another series of the store, such as that of a former template, can come
        to the same number at the same time: `is_number_taken` detects that.
        """
        free: list[str] = []
        step = count
        while len(free) < count:
            last = await self._advance(series, step)
            wanted = [number(sequence) for sequence in range(last - step + 1, last + 1)]
            of_store = {"storeId": store_id, "number": {"$in": wanted}}
            taken = {each["number"] async for each in self._returns.find(of_store, {"_id": 0, "number": 1})}
            free += [each for each in wanted if each not in taken]
            # If all were taken, many more may be.
            step = min(2 * step, _MOST_AT_ONCE) if len(taken) == step else count - len(free)
        return free[:count]

    async def _advance(self, series: str, by: int) -> int:
        counter = await self._counters.find_one_and_update(
            {"_id": f"returns/{series}"},
            {"$inc": {"last": by}},
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        return int((counter or {})["last"])


def is_number_taken(error: BulkWriteError) -> bool:
    """True if returns were not saved only because others took their numbers meanwhile."""
    return is_duplicate(error) and all(
        "number" in failure.get("keyPattern", ()) for failure in error.details["writeErrors"]
    )
