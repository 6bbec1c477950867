"""Objects that are reviewed, with the facts published about them."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from pymongo import ASCENDING, IndexModel, ReplaceOne

from domain.objects import REVIEWS_ENABLED, Fact, ObjectFacts, ObjectKey
from domain.ratings import Entity
from storage.database import Database, Document, Session
from storage.queries import ONE_ANSWER, write_all
from storage.shapes import (
    OBJECT,
    Shape,
    StoredDocumentError,
    irrecoverable_field,
    log_damage,
    read_as_stored,
)

COLLECTION: Final = "objects"

FACTS: Final = Shape(COLLECTION, dict.fromkeys(("facts", "told"), irrecoverable_field(OBJECT, {})))

_CLOSED: Final[Document] = {f"facts.{REVIEWS_ENABLED}": False}
INDEXES: Final = [
    IndexModel([(f"facts.{REVIEWS_ENABLED}", ASCENDING)], name="closed", partialFilterExpression=_CLOSED),
]


class ObjectRepository:
    """Reads and writes facts of objects."""

    def __init__(self, database: Database) -> None:
        self._objects = database[COLLECTION]
        self._has_facts = False

    async def of_keys(
        self, keys: Collection[ObjectKey], session: Session | None = None
    ) -> dict[ObjectKey, ObjectFacts]:
        """The facts of these objects, in their stores and in all stores; unknown ones are left out. Raises
        StoredDocumentError if one is damaged: without its facts, nobody knows whether it takes reviews."""
        found = await self._found(keys, session)
        return {_key(document["_id"]): read_as_stored(COLLECTION, _facts, document) for document in found}

    async def undamaged(self, keys: Collection[ObjectKey]) -> dict[ObjectKey, ObjectFacts]:
        """The facts of these objects, for pages and early checks: damaged ones are left out, and logged."""
        objects: dict[ObjectKey, ObjectFacts] = {}
        for document in await self._found(keys, None):
            try:
                objects[_key(document["_id"])] = read_as_stored(COLLECTION, _facts, document)
            except StoredDocumentError as error:
                log_damage("the facts of an object can't be read", id=str(error.id), error=error.reason)
        return objects

    async def _found(self, keys: Collection[ObjectKey], session: Session | None) -> list[Document]:
        if not keys or not await self._has_any_facts(session):
            return []
        wanted = {each for key in keys for each in (key, ObjectKey(key.entity, None))}
        found = self._objects.find({"_id": {"$in": [*map(_id, wanted)]}}, batch_size=ONE_ANSWER, session=session)
        return await found.to_list()

    async def is_any_closed(self) -> bool:
        """True if there is an object that takes no reviews."""
        return await self._objects.find_one(_CLOSED, {"_id": 1}) is not None

    async def save(self, objects: Mapping[ObjectKey, ObjectFacts], session: Session) -> None:
        """Write objects as they are now. Another transaction that writes one of them conflicts and is repeated."""
        writes = [
            ReplaceOne({"_id": _id(key)}, {"facts": dict(each.facts), "told": dict(each.records)}, upsert=True)
            for key, each in objects.items()
        ]
        await write_all(self._objects, writes, session)

    async def _has_any_facts(self, session: Session | None) -> bool:
        """True once facts of any object are stored. Until then, maybe forever, this query saves sending all keys."""
        if not self._has_facts:
            self._has_facts = await self._objects.find_one({}, {"_id": 1}, session=session) is not None
        return self._has_facts


def _id(key: ObjectKey) -> Document:
    return {"entityType": key.entity.type, "entityId": key.entity.id, "storeId": key.store_id}


def _key(id: Document) -> ObjectKey:
    return ObjectKey(Entity(id["entityType"], id["entityId"]), id["storeId"])


def _facts(document: Document) -> ObjectFacts:
    facts = {name: _fact(value) for name, value in document["facts"].items()}
    return ObjectFacts(facts, {name: tuple(told) for name, told in document["told"].items()})


def _fact(value: Any) -> Fact:
    if isinstance(value, str | bool):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise TypeError("a fact is neither a text nor a list of texts, nor true or false")
