"""Secret keys that are made up once and kept in the database, for what was configured without one."""

from secrets import token_urlsafe
from typing import Final

from storage.database import Database
from storage.stores import SETTINGS

_KEY_BYTES: Final = 32


class MadeUpKey:
    """A key by its name among the settings, 256 random bits in base64url. Whoever can read the database has it."""

    def __init__(self, database: Database, name: str) -> None:
        self._settings = database[SETTINGS]
        self._name = name

    async def get(self) -> str | None:
        """The key; None where none has been made up yet."""
        document = await self._settings.find_one({"_id": self._name})
        return str(document["key"]) if document else None

    async def make(self) -> str:
        """The key, made up if there is none. Of several who do so at once, all get the same."""
        made_up = {"$setOnInsert": {"key": token_urlsafe(_KEY_BYTES)}}
        await self._settings.update_one({"_id": self._name}, made_up, upsert=True)
        return await self.get() or ""
