"""API keys: their owners, permissions and hashes of their secrets; only the owner has the secret itself."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from domain.permissions import Caller, known_permissions
from storage.database import Database, Document
from storage.queries import stored_bytes

COLLECTION: Final = "apiKeys"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is stored."""

    id: str
    caller: Caller
    digest: bytes
    """The SHA-256 of its secret."""
    created: datetime
    expires: datetime | None = None
    """None: valid until it is revoked."""
    revoked: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        """True if the key is valid at that moment."""
        return self.revoked is None and (self.expires is None or now < self.expires)


class ApiKeyRepository:
    """Reads and writes keys. The facade only reads them."""

    def __init__(self, database: Database) -> None:
        self._keys = database[COLLECTION]

    async def get(self, id: str) -> ApiKey | None:
        """One key, or None."""
        document = await self._keys.find_one({"_id": id})
        return _key(document) if document else None

    async def all(self) -> list[ApiKey]:
        """All keys, including revoked and expired ones, by client and age."""
        return [_key(document) async for document in self._keys.find().sort([("client", 1), ("created", 1)])]

    async def size(self) -> int:
        """The stored size of all keys in bytes."""
        return await stored_bytes(self._keys)

    async def add(self, key: ApiKey) -> None:
        """Store a new key."""
        caller = key.caller
        await self._keys.insert_one(
            {
                "_id": key.id,
                "client": caller.subject,
                "permissions": sorted(caller.permissions),
                "stores": None if caller.stores is None else sorted(caller.stores),
                "digest": key.digest,
                "created": key.created,
                "expires": key.expires,
                "revoked": key.revoked,
            }
        )

    async def remove(self, id: str) -> None:
        """Remove a key that nobody has."""
        await self._keys.delete_one({"_id": id})

    async def revoke(self, id: str, at: datetime) -> bool:
        """Revoke a key; one that is already revoked keeps its date. Returns False if there is no such key."""
        result = await self._keys.update_one(
            {"_id": id}, [{"$set": {"revoked": {"$ifNull": ["$revoked", at]}}}], upsert=False
        )
        return result.matched_count > 0


def _key(document: Document) -> ApiKey:
    stores = document["stores"]
    return ApiKey(
        id=document["_id"],
        caller=Caller(
            document["client"],
            known_permissions(document["permissions"]),
            None if stores is None else frozenset(stores),
        ),
        digest=document["digest"],
        created=document["created"],
        expires=document["expires"],
        revoked=document["revoked"],
    )
