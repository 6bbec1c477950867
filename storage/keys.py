"""API keys: their owners, permissions and hashes of their secrets; only the owner has the secret itself."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from pymongo import ASCENDING

from domain.letter_case import pattern_in_any_case
from domain.permissions import Caller, known_permissions
from storage.database import Database, Document
from storage.keyset import after_row, position_of
from storage.queries import stored_bytes

COLLECTION: Final = "apiKeys"

_ORDER: Final = [("client", ASCENDING), ("created", ASCENDING), ("_id", ASCENDING)]


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


class KeySearch(NamedTuple):
    """Search criteria: a key must meet all that are set."""

    phrase: str | None = None
    """A part of the id, of the client or of a store, in any letter case."""
    after: str | None = None
    """The id of the key after which the page begins; after an unknown one there is none."""
    take: int | None = None
    """The maximum number of keys; None: all."""


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
        return await self.page(KeySearch())

    async def page(self, search: KeySearch) -> list[ApiKey]:
        """The matching keys, by client and age."""
        conditions = _criteria(search)
        if search.after is not None:
            last = await self._keys.find_one({"_id": search.after})
            if last is None:
                return []
            conditions["$and"] = after_row(_ORDER, position_of(last, _ORDER))
        return [_key(document) async for document in self._keys.find(conditions).sort(_ORDER).limit(search.take or 0)]

    async def size(self, search: KeySearch) -> int:
        """The stored size in bytes of the matching keys, or about that of a page of them."""
        return await stored_bytes(self._keys, _criteria(search), search.take)

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


def _criteria(search: KeySearch) -> Document:
    """The MongoDB filter for a search on any page."""
    if not search.phrase:
        return {}
    pattern = {"$regex": pattern_in_any_case(search.phrase), "$options": "i"}
    return {"$or": [{"_id": pattern}, {"client": pattern}, {"stores": pattern}]}


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
