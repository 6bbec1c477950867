"""Archives of the audit log: the entries before a moment, and the one archive whose entries are being removed."""

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from bson import ObjectId
from pymongo.errors import DuplicateKeyError

from storage.audit import AT_ONCE, AuditEntry, entry_from, first_id_of
from storage.audit import COLLECTION as ENTRIES
from storage.database import Database

COLLECTION: Final = "auditArchives"
_UNFINISHED: Final = "unfinished"


class ArchivedEntry(NamedTuple):
    """An entry, and the id by which to remove it."""

    id: str
    entry: AuditEntry


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive file: its absolute path, the SHA-256 of its bytes, and the number of its entries."""

    file: str
    sha256: str
    entries: int


class AuditArchives:
    """Finds entries for an archive, and removes them once its file holds them.

    At most one archive is unfinished: from `begin`, once its file has been written, until its entries are removed.
    """

    def __init__(self, database: Database) -> None:
        self._entries = database[ENTRIES]
        self._archives = database[COLLECTION]

    async def entries_before(self, moment: datetime) -> AsyncIterator[ArchivedEntry]:
        """The entries that took effect before the second of this moment, oldest first. Memory holds AT_ONCE of them."""
        before = {"_id": {"$lt": first_id_of(moment)}}
        async for document in self._entries.find(before, batch_size=AT_ONCE).sort("_id"):
            yield ArchivedEntry(str(document["_id"]), entry_from(document))

    async def unfinished(self) -> Archive | None:
        """The archive whose entries may not all have been removed, if any."""
        found = await self._archives.find_one({"_id": _UNFINISHED})
        return Archive(found["file"], found["sha256"], found["entries"]) if found else None

    async def begin(self, archive: Archive) -> bool:
        """Record that the entries in this file are to be removed. Returns False if another archive is unfinished."""
        fields = {"file": archive.file, "sha256": archive.sha256, "entries": archive.entries}
        try:
            await self._archives.insert_one({"_id": _UNFINISHED, **fields})
        except DuplicateKeyError:
            return False
        return True

    async def count(self, ids: Collection[str]) -> int:
        """The number of these entries that are still in the log."""
        return await self._entries.count_documents({"_id": {"$in": [ObjectId(id) for id in ids]}})

    async def remove(self, ids: Collection[str]) -> int:
        """Remove entries; returns the number removed."""
        return (await self._entries.delete_many({"_id": {"$in": [ObjectId(id) for id in ids]}})).deleted_count

    async def finish(self, archive: Archive) -> None:
        """Record that this archive is finished."""
        await self._archives.delete_one({"_id": _UNFINISHED, "file": archive.file, "sha256": archive.sha256})
