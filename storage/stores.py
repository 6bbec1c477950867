"""Stores and the general settings. Documents hold only what was set; defaults are the domain's."""

from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import fields
from typing import Any, Final, NamedTuple

from pydantic.alias_generators import to_camel
from pymongo import ReturnDocument

from domain.delivery import Seen
from domain.letter_case import pattern_in_any_case
from domain.ratings import RatingMethod
from domain.stores import GENERAL, Changes, GeneralSettings, ReminderSettings, Store, StoreSettings
from storage.database import Database, Document, Session
from storage.moderation_rules import rule_from
from storage.queries import stored_bytes
from storage.seen import seen_document, seen_from
from storage.shapes import (
    ARRAY,
    BOOL,
    OBJECT,
    READ_ERRORS,
    STRING,
    TEXT_OR_NULL,
    Shape,
    StoredDocumentError,
    check_present,
    default_field,
    log_damage,
    read_as_stored,
)

COLLECTION: Final = "stores"
SETTINGS: Final = "settings"

_STORE: Final = Shape(
    COLLECTION,
    {
        "_id": default_field(STRING),
        **dict.fromkeys(("name", "email"), default_field(TEXT_OR_NULL)),
        "languages": default_field(ARRAY),
        "settings": default_field(OBJECT),
    },
)
_STORE_SETTINGS: Final = Shape(
    COLLECTION,
    {
        **{to_camel(each.name): default_field(BOOL) for each in fields(StoreSettings) if each.type is bool},
        **dict.fromkeys(("returnNumberTemplate", "reviewUrl"), default_field(TEXT_OR_NULL)),
        **dict.fromkeys(("moderationRules", "storefrontOrigins"), default_field(ARRAY)),
    },
)

_WITHOUT_RULES: Final = {"settings.moderationRules": 0}
"""The projection without what can be large in a store."""
_FEW: Final = 100


class Merged(NamedTuple):
    """The effect of a merge."""

    is_new: bool
    """True if there was nothing before."""
    changed: tuple[str, ...]
    """The names of fields with a new value, compared with the default if none was set; nested ones have a dot."""


class StoreSearch(NamedTuple):
    """Search criteria: a store must meet all that are set."""

    ids: Collection[str] | None = None
    phrase: str | None = None
    """A part of the id or of the name, in any letter case. MongoDB reads every store that meets the other criteria."""
    after: str | None = None
    """The id after which the page begins."""
    take: int | None = None
    """The maximum number of stores; None: all."""


class StoreRepository:
    """Reads and writes stores and the general settings. Reading a damaged store raises StoredDocumentError: no default
    is good enough for a setting that was lost."""

    def __init__(self, database: Database) -> None:
        self._stores = database[COLLECTION]
        self._settings = database[SETTINGS]

    async def all(self) -> list[Store]:
        """All registered stores, by id and without their moderation rules, which are large together; damaged ones are
        left out, and logged."""
        return await self.page(StoreSearch(), with_rules=False)

    async def page(self, search: StoreSearch, *, with_rules: bool = True) -> list[Store]:
        """The matching stores, by id. Damaged ones are left out, and logged: others take their places on the page."""
        stores: list[Store] = []
        fields = None if with_rules else _WITHOUT_RULES
        async with aclosing(self._read(_criteria(search), fields, search.take or 0)) as found:
            async for id, store in found:
                if isinstance(store, StoredDocumentError):
                    _log(id, store)
                    continue
                stores.append(store)
                if len(stores) == search.take:
                    break
        return stores

    async def each_is_damaged(self) -> AsyncGenerator[tuple[str, bool]]:
        """The id of each store, and True if it is damaged. They are read a few at a time: with their moderation rules
        they are large together."""
        async with aclosing(self._read({}, at_once=_FEW)) as found:
            async for id, store in found:
                yield id, isinstance(store, StoredDocumentError)

    async def of_ids_or_errors(
        self, ids: Collection[str], *, with_rules: bool = True
    ) -> dict[str, Store | StoredDocumentError]:
        """The registered ones among these stores, by id; in place of a damaged one, which is logged, its error. Their
        moderation rules, which can be large, may be left out."""
        fields = None if with_rules else _WITHOUT_RULES
        found = {id: store async for id, store in self._read({"_id": {"$in": list(ids)}}, fields)}
        for id, store in found.items():
            if isinstance(store, StoredDocumentError):
                _log(id, store)
        return found

    async def _read(
        self, condition: Document, fields: Document | None = None, at_once: int = 0
    ) -> AsyncGenerator[tuple[str, Store | StoredDocumentError]]:
        async with self._stores.find(condition, fields, batch_size=at_once).sort("_id") as documents:
            async for document in documents:
                try:
                    yield document["_id"], _store(document)
                except StoredDocumentError as error:
                    yield str(document["_id"]), error

    async def size(self, search: StoreSearch) -> int:
        """The stored size of the matching stores in bytes."""
        return await stored_bytes(self._stores, _criteria(search), search.take)

    async def count(self) -> int:
        """About the number of registered stores."""
        return await self._stores.estimated_document_count()

    async def get(self, id: str) -> Store | None:
        """One store, or None if it isn't registered."""
        document = await self._stores.find_one({"_id": id})
        return _store(document) if document else None

    async def is_registered(self, id: str, session: Session) -> bool:
        """True for a registered store, even if it is damaged."""
        return await self._stores.find_one({"_id": id}, {"_id": 1}, session=session) is not None

    async def of_ids(self, ids: Collection[str]) -> dict[str, Store]:
        """The registered ones among these stores, by id."""
        if not ids:
            return {}
        return {document["_id"]: _store(document) async for document in self._stores.find({"_id": {"$in": list(ids)}})}

    async def taking_reviews(self, *, with_email: bool = False) -> list[str]:
        """The ids of the stores with reviews enabled; `with_email`: only those with an address."""
        wanted: Document = {"settings.reviewsEnabled": True} | ({"email": {"$gt": ""}} if with_email else {})
        return [document["_id"] async for document in self._stores.find(wanted, {"_id": 1})]

    async def general(self) -> GeneralSettings:
        """The settings that hold for all stores."""
        return _general(await self._settings.find_one({"_id": GENERAL}) or {})

    async def seen(self, store_id: str | None, session: Session) -> Seen:
        """The marks of updates that a store, or without an id the general settings, has taken into account."""
        collection, id = self._document_of(store_id)
        document = await collection.find_one({"_id": id}, {"seen": 1}, session=session)
        return seen_from((document or {}).get("seen"))

    async def merge(self, store_id: str | None, changes: Changes, seen: Seen, session: Session) -> Merged:
        """Merge changes into a store, or without an id into the general settings; nested fields one by one."""
        collection, id = self._document_of(store_id)
        fields = _flatten(changes)
        before = await collection.find_one_and_update(
            {"_id": id},
            {"$set": {**fields, "seen": seen_document(seen)}},
            upsert=True,
            return_document=ReturnDocument.BEFORE,
            session=session,
        )
        read, old = (_general, before or {}) if store_id is None else (_store, before or {"_id": id})
        return Merged(before is None, tuple(name for name in fields if _is_new_value(read, old, name, fields[name])))

    def _document_of(self, store_id: str | None) -> tuple[Any, str]:
        return (self._settings, GENERAL) if store_id is None else (self._stores, store_id)


def _log(id: str, error: StoredDocumentError) -> None:
    log_damage("a store can't be read", id=id, error=error.reason)


def _criteria(search: StoreSearch) -> Document:
    """The MongoDB filter for a search."""
    ids: Document = {} if search.ids is None else {"$in": list(search.ids)}
    if search.after is not None:
        ids["$gt"] = search.after
    conditions: Document = {"_id": ids} if ids else {}
    if search.phrase:
        pattern = {"$regex": pattern_in_any_case(search.phrase), "$options": "i"}
        conditions["$or"] = [{"_id": pattern}, {"name": pattern}]
    return conditions


def _flatten(changes: Changes) -> Document:
    flat: Document = {}
    for name, value in changes.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": each for inner, each in value.items()}
        else:
            flat[name] = value
    return flat


def _is_new_value(read: Callable[[Document], object], document: Document, name: str, value: object) -> bool:
    """True if the value of a field, by its flat name, changes what is read from the document, or can't be compared as
    the document is damaged."""
    outer, _, inner = name.partition(".")
    try:
        new = {**document, outer: {**document.get(outer, {}), inner: value} if inner else value}
        return read(new) != read(document)
    except (StoredDocumentError, *READ_ERRORS):
        return True


def _given(kind: type, document: Document) -> dict[str, Any]:
    """The fields of a dataclass that a document has, under their names in the interface."""
    names = {to_camel(each.name): each.name for each in fields(kind)}
    return {names[name]: value for name, value in document.items() if name in names}


def _general(document: Document) -> GeneralSettings:
    # A field without a value has its default; false and zero are values.
    given = {name: value for name, value in _given(GeneralSettings, document).items() if value not in (None, "", [])}
    return GeneralSettings(**given | {name: read(given[name]) for name, read in _READ.items() if name in given})


def _reminder(document: Document) -> ReminderSettings:
    return ReminderSettings(**_given(ReminderSettings, document))


_READ: Final[Mapping[str, Callable[[Any], object]]] = {
    "rating_calculation_method": RatingMethod,
    "return_statuses": tuple,
    "reminder": _reminder,
}


def _store(document: Document) -> Store:
    return read_as_stored(COLLECTION, _store_from, document)


def _store_from(document: Document) -> Store:
    settings = document.get("settings", {})
    check_present(_STORE, document)
    check_present(_STORE_SETTINGS, settings)
    method = settings.get("ratingCalculationMethod")
    read = {
        "rating_calculation_method": RatingMethod(method) if method else None,
        "review_url": settings.get("reviewUrl") or None,
        "moderation_rules": tuple(map(rule_from, settings.get("moderationRules", ()))),
        "storefront_origins": _texts(settings.get("storefrontOrigins", ())),
    }
    own = StoreSettings(**_given(StoreSettings, settings) | read)
    languages = _texts(document.get("languages", ()))
    return Store(document["_id"], document.get("name"), document.get("email"), languages, own)


def _texts(values: Collection[object]) -> tuple[str, ...]:
    texts = tuple(value for value in values if isinstance(value, str))
    if len(texts) < len(values):
        raise TypeError("a list has something else than texts")
    return texts
