"""The mark of the database's schema, and the progress of a migration step."""

from typing import Final, NamedTuple

from pymongo.errors import DuplicateKeyError

from domain.schema import SchemaMark, fresh_mark, refusal
from storage.database import Database, Document

COLLECTION: Final = "schema"

_ID: Final = "mark"
_CONTENT: Final = ("reviews", "ratings", "orders", "returns", "stores", "settings")
"""A database without documents in any of these collections is fresh."""


class SchemaRefusedError(Exception):
    """This version of the service can't run on the schema of its database; waiting doesn't help."""


class StepProgress(NamedTuple):
    """A step in progress: everything up to the id `after` is done."""

    number: int
    after: str = ""
    done: int = 0


class SchemaMarks:
    """Reads and writes the mark."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._marks = database[COLLECTION]

    async def load(self) -> SchemaMark:
        """The mark; that of a fresh database if nothing was written yet."""
        # Before reading the mark: the first writer has marked the database before it wrote content.
        is_fresh = await self._is_fresh()
        found = await self._marks.find_one({"_id": _ID})
        if found is None:
            return fresh_mark() if is_fresh else SchemaMark()
        return SchemaMark(found["version"], found["runsFrom"])

    async def is_blank(self) -> bool:
        """True for a database that no service has prepared: it has neither a mark nor content."""
        return await self._marks.find_one({"_id": _ID}) is None and await self._is_fresh()

    async def check(self) -> SchemaMark:
        """The mark. Raises SchemaRefusedError if this version can't run on it."""
        mark = await self.load()
        if reason := refusal(mark):
            raise SchemaRefusedError(reason)
        return mark

    async def mark_fresh(self) -> None:
        """Mark a fresh database; others stay as they are."""
        if not await self._is_fresh():
            return
        try:
            await self._marks.update_one({"_id": _ID}, {"$setOnInsert": _fields(fresh_mark())}, upsert=True)
        except DuplicateKeyError:
            return  # another process was first

    async def save(self, mark: SchemaMark) -> None:
        """Write the mark, which never goes back, and remove the progress of a step that is completed by it."""
        await self._marks.update_one({"_id": _ID}, {"$max": _fields(mark)}, upsert=True)
        await self._marks.update_one({"_id": _ID, "step.number": {"$lte": mark.version}}, {"$unset": {"step": ""}})

    async def progress(self, number: int) -> StepProgress:
        """The progress of a step."""
        found = await self._marks.find_one({"_id": _ID, "step.number": number})
        return StepProgress(number, found["step"]["after"], found["step"]["done"]) if found else StepProgress(number)

    async def note(self, progress: StepProgress) -> None:
        """Record the progress of a step."""
        await self._marks.update_one({"_id": _ID}, {"$set": {"step": progress._asdict()}})

    async def _is_fresh(self) -> bool:
        for name in _CONTENT:
            if await self._database[name].find_one({}, {"_id": 1}) is not None:
                return False
        return True


def _fields(mark: SchemaMark) -> Document:
    return {"version": mark.version, "runsFrom": mark.least}
