"""The memory that the store of images has its mark, by which one that isn't there is told from one that lost a file."""

from __future__ import annotations

from typing import Final

from storage.database import Database

COLLECTION: Final = "imageStore"

_ID: Final = "mark"


class StoreMark:
    """Remembers that the store of images has been marked. A store without the mark is then another one, as the folder
    in which a volume isn't mounted."""

    def __init__(self, database: Database) -> None:
        self._marks = database[COLLECTION]

    async def is_written(self) -> bool:
        """True once the store has been marked."""
        return await self._marks.find_one({"_id": _ID}) is not None

    async def note_written(self) -> None:
        """Remember that the store is marked."""
        await self._marks.update_one({"_id": _ID}, {"$currentDate": {"at": True}}, upsert=True)
