"""Sessions of the console that were ended early, and the key of their cookies."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

from pymongo import ASCENDING, IndexModel, UpdateOne

from domain.sessions import LIFETIME
from storage.database import Database
from storage.generated_keys import GeneratedKey
from storage.queries import write_all

COLLECTION: Final = "endedSessions"

_KEY: Final = "consoleCookieKey"
_CLOCKS_DIFFER: Final = timedelta(hours=1)

INDEXES: Final = [
    # By then the session would have expired: it ended after it had begun.
    IndexModel([("at", ASCENDING)], name="expiry", expireAfterSeconds=int((LIFETIME + _CLOCKS_DIFFER).total_seconds())),
]


class SessionRepository:
    """Remembers ended sessions. `key` is the key of cookies if none is configured. The facade only reads both."""

    def __init__(self, database: Database) -> None:
        self._ended = database[COLLECTION]
        self.key = GeneratedKey(database, _KEY)

    async def end(self, ids: Collection[str], at: datetime) -> None:
        """Record that these sessions have ended; a repeat changes nothing."""
        writes = [UpdateOne({"_id": id}, {"$setOnInsert": {"at": at}}, upsert=True) for id in ids]
        await write_all(self._ended, writes)

    async def is_ended(self, id: str) -> bool:
        """True if somebody signed out of the session."""
        return await self._ended.find_one({"_id": id}, {"_id": 1}) is not None
