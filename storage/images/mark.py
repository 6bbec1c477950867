"""The record that the image store was marked, which distinguishes a missing store from one that lost a file."""

from typing import Final

from obstore.exceptions import GenericError

from domain.images import SIZES
from storage.database import Database
from storage.images.files import MARK, ImageFiles
from storage.images.repository import ImageRepository

COLLECTION: Final = "imageStore"

WHY_ANOTHER: Final = f"has no file {MARK}: it is not the store used before, or its volume isn't mounted"
ADVICE: Final = (
    f"Mount the volume, or create a file {MARK} with any content there, if this store is the one to use from now on."
)

_ID: Final = "mark"


class ImageStoreMark:
    """Remembers that the image store was marked. A store without the mark is then another one, such as the folder
    of an unmounted volume."""

    def __init__(self, database: Database) -> None:
        self._marks = database[COLLECTION]
        self._images = ImageRepository(database)

    async def is_written(self) -> bool:
        """True once the store has been marked."""
        return await self._marks.find_one({"_id": _ID}) is not None

    async def is_missing_in(self, files: ImageFiles) -> bool:
        """True if these files are those of another store: without the mark although it was written, or without any of a
        few ready images, which 0.1.0 may have made, without a mark. A single one may be a lost file."""
        if await files.is_marked():
            return False
        return await self.is_written() or await self._has_none_ready(files)

    async def check(self, files: ImageFiles) -> None:
        """Raises GenericError, as for an unavailable store, if these files are those of another store: files that it
        lacks aren't lost but in the other one, and files written into it would be lost. The very first store is
        trusted."""
        if await self.is_missing_in(files):
            raise GenericError(f"The image store {WHY_ANOTHER}. {ADVICE}")

    async def write(self, files: ImageFiles) -> None:
        """Mark the store, once. A file has just been read from it, so it is the right one unless another one was used
        before: raises GenericError, as `check` does, for an unmarked store then."""
        await self.check(files)
        if not await self.is_written():
            # Record it last: with a recorded mark that is missing, no file would ever count as lost.
            await files.mark()
            await self._marks.update_one({"_id": _ID}, {"$currentDate": {"at": True}}, upsert=True)

    async def _has_none_ready(self, files: ImageFiles) -> bool:
        ids = await self._images.some_ready()
        for id in ids:
            if await files.get(id, SIZES[0]) is not None:
                return False
        return bool(ids)
