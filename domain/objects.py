"""Facts of objects, such as products, from upstream updates that are partial, late, repeated or out of order."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from domain.delivery import RecordPosition
from domain.invisible import is_blank, unless_blank
from domain.ratings import Entity

Fact = str | bool | tuple[str, ...]
FactRecord = tuple[int, int, int]
"""The record of a fact: timestamp, partition and offset. The greater one is newer."""

REVIEWS_ENABLED: Final = "reviewsEnabled"
NAME: Final = "name"
URL: Final = "url"
IMAGE_URL: Final = "imageUrl"
GTINS: Final = "gtins"
MPNS: Final = "mpns"
SKUS: Final = "skus"
BRANDS: Final = "brands"


class ObjectKey(NamedTuple):
    """An object in a store; without a store: in all stores."""

    entity: Entity
    store_id: str | None


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """The newest facts of an object by their names in the API, and the record of each."""

    facts: Mapping[str, Fact] = field(default_factory=dict)
    records: Mapping[str, FactRecord] = field(default_factory=dict)

    def after(self, facts: Mapping[str, Fact], position: RecordPosition) -> "ObjectFacts":
        """The facts after a record with these; the same object if none of them is newer.

        Each fact is that of its newest record, whatever the order of arrival.
        """
        at = (position.timestamp, position.partition, position.offset)
        news = {name: fact for name, fact in facts.items() if name not in self.records or self.records[name] < at}
        if not news:
            return self
        return ObjectFacts({**self.facts, **news}, {**self.records, **dict.fromkeys(news, at)})


KnownObjects = Mapping[ObjectKey, ObjectFacts]


def fact_of(objects: KnownObjects, key: ObjectKey, name: str) -> Fact | None:
    """A fact of an object: the one given for the store, else for all stores."""
    for each in (key, ObjectKey(key.entity, None)):
        if each in objects and name in objects[each].facts:
            return objects[each].facts[name]
    return None


def is_closed(objects: KnownObjects, key: ObjectKey) -> bool:
    """True if the object takes no reviews in the store."""
    return fact_of(objects, key, REVIEWS_ENABLED) is False


def object_name(objects: KnownObjects, key: ObjectKey) -> str | None:
    """The name of the object in the store, if known."""
    name = fact_of(objects, key, NAME)
    return name if isinstance(name, str) else None


class Description(NamedTuple):
    """The name of an object, the URLs of its page and image, and its product codes; empty where unknown or blank."""

    name: str | None = None
    url: str | None = None
    image_url: str | None = None
    gtins: tuple[str, ...] = ()
    mpns: tuple[str, ...] = ()
    skus: tuple[str, ...] = ()
    brands: tuple[str, ...] = ()


def description(objects: KnownObjects, key: ObjectKey) -> Description:
    """The description of an object, fact by fact: the one given for the store, else for all stores."""

    def text(name: str) -> str | None:
        fact = fact_of(objects, key, name)
        return unless_blank(fact) if isinstance(fact, str) else None

    def codes(name: str) -> tuple[str, ...]:
        fact = fact_of(objects, key, name)
        return tuple(code for code in fact if not is_blank(code)) if isinstance(fact, tuple) else ()

    return Description(text(NAME), text(URL), text(IMAGE_URL), codes(GTINS), codes(MPNS), codes(SKUS), codes(BRANDS))
