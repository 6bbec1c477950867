"""The memory that the store of images has its mark, by which one that isn't there is told from one that lost a file."""

from __future__ import annotations

from typing import Final

from storage.database import Database
from storage.images_files import MARK, ImageFiles

COLLECTION: Final = "imageStore"

WHY_ANOTHER: Final = f"has no file {MARK}: it is another store than before, or its volume isn't mounted"
ADVICE: Final = f"Mount it, or put a file {MARK} there, with anything in it, if it is the one to use from now on."

_ID: Final = "mark"


class StoreMark:
    """Remembers that the store of images has been marked. A store without the mark is then another one, as the folder
    in which a volume isn't mounted."""

    def __init__(self, database: Database) -> None:
        self._marks = database[COLLECTION]

    async def is_written(self) -> bool:
        """True once the store has been marked."""
        return await self._marks.find_one({"_id": _ID}) is not None

    async def is_missing_in(self, files: ImageFiles) -> bool:
        """True if the store has been marked, and these files are those of another one."""
        return await self.is_written() and not await files.is_marked()

    async def note_written(self) -> None:
        """Remember that the store is marked."""
        await self._marks.update_one({"_id": _ID}, {"$currentDate": {"at": True}}, upsert=True)
