"""Secret keys that are generated once and kept in the database, for settings without a configured one."""

from secrets import token_urlsafe
from typing import Final

from storage.database import Database
from storage.stores import SETTINGS

_KEY_BYTES: Final = 32


class GeneratedKey:
    """A key by its name among the settings: 256 random bits in base64url. Anyone who can read the database has it."""

    def __init__(self, database: Database, name: str) -> None:
        self._settings = database[SETTINGS]
        self._name = name

    async def get(self) -> str | None:
        """The key; None if none was generated yet."""
        document = await self._settings.find_one({"_id": self._name})
        return str(document["key"]) if document else None

    async def get_or_create(self) -> str:
        """The key, generated if there is none. Concurrent callers all get the same one."""
        generated = {"$setOnInsert": {"key": token_urlsafe(_KEY_BYTES)}}
        await self._settings.update_one({"_id": self._name}, generated, upsert=True)
        return await self.get() or ""
