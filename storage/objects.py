"""Objects that are reviewed, with the facts that were told of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from pymongo import ASCENDING, IndexModel, ReplaceOne

from domain.objects import REVIEWS_ENABLED, Fact, ObjectFacts, ObjectPlace
from domain.ratings import Entity
from storage.database import Database, Document, Session, write_all

COLLECTION: Final = "objects"

_CLOSED: Final[Document] = {f"facts.{REVIEWS_ENABLED}": False}
INDEXES: Final = [
    IndexModel([(f"facts.{REVIEWS_ENABLED}", ASCENDING)], name="closed", partialFilterExpression=_CLOSED),
]


class ObjectRepository:
    """Reads and writes facts of objects."""

    def __init__(self, database: Database) -> None:
        self._objects = database[COLLECTION]

    async def of_places(
        self, places: Collection[ObjectPlace], session: Session | None = None
    ) -> dict[ObjectPlace, ObjectFacts]:
        """The facts of these objects in their stores, and in all stores; unknown ones are left out."""
        if not places:
            return {}
        wanted = {each for place in places for each in (place, ObjectPlace(place.entity, None))}
        found = self._objects.find({"_id": {"$in": [*map(_id, wanted)]}}, session=session)
        return {_place(document["_id"]): _facts(document) async for document in found}

    async def is_any_closed(self) -> bool:
        """True if there is an object that takes no reviews."""
        return await self._objects.find_one(_CLOSED, {"_id": 1}) is not None

    async def save(self, objects: Mapping[ObjectPlace, ObjectFacts], session: Session) -> None:
        """Write objects as they are now. Another transaction that writes one of them conflicts and is repeated."""
        writes = [
            ReplaceOne({"_id": _id(place)}, {"facts": dict(each.facts), "told": dict(each.told)}, upsert=True)
            for place, each in objects.items()
        ]
        await write_all(self._objects, writes, session)


def _id(place: ObjectPlace) -> Document:
    return {"entityType": place.entity.type, "entityId": place.entity.id, "storeId": place.store_id}


def _place(id: Document) -> ObjectPlace:
    return ObjectPlace(Entity(id["entityType"], id["entityId"]), id["storeId"])


def _facts(document: Document) -> ObjectFacts:
    facts = {name: _fact(value) for name, value in document["facts"].items()}
    return ObjectFacts(facts, {name: tuple(told) for name, told in document["told"].items()})


def _fact(value: Any) -> Fact:
    fact: Fact = tuple(value) if isinstance(value, list) else value
    return fact
