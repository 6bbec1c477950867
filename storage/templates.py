"""Saved mail templates, each for one store or all, in one language or all."""

from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from urllib.parse import parse_qs

from pymongo import ASCENDING, IndexModel

from domain.delivery import Seen
from domain.templates import MailTemplate, TemplateScope, canonical_language, fallbacks, template_id
from storage.database import Database, Document, Session
from storage.queries import expiry_index, stored_bytes
from storage.seen import seen_document, seen_from
from storage.shapes import (
    STRING,
    TEXT_OR_NULL,
    RequiredField,
    Shape,
    StoredDocumentError,
    check_whole,
    irrecoverable_field,
    read,
    read_for_display,
    require,
)

COLLECTION: Final = "notificationTemplates"

_SAVED: Final = {"deletedAt": None}


def _of_id(field: str) -> Callable[[Document], str | None]:
    """Reads a field of the scope from the id: see `domain.templates.template_id`."""
    return lambda document: next(iter(parse_qs(str(document["_id"]).partition("?")[2]).get(field, ())), None)


_PARTS: Final = ("subject", "text", "html")

TEMPLATE: Final = Shape(
    COLLECTION,
    {
        "name": RequiredField(STRING, lambda document: str(document["_id"]).partition("?")[0]),
        **{name: RequiredField(TEXT_OR_NULL, _of_id(name)) for name in ("storeId", "languageCode")},
        **dict.fromkeys(_PARTS, irrecoverable_field(STRING, "")),
    },
    _SAVED,
)


def indexes(remember_days: int) -> list[IndexModel]:
    """Indexes of the collection. The marks of a deleted template are kept for this many days: longer than Kafka keeps
    what could bring it back."""
    return [
        IndexModel([("name", ASCENDING)], name="name"),
        expiry_index("deletedAt", remember_days),
    ]


@dataclass(frozen=True, slots=True)
class SavedTemplate:
    """A template and its scope: None is all stores, or all languages."""

    name: str
    store_id: str | None
    language: str | None
    template: MailTemplate

    @property
    def scope(self) -> TemplateScope:
        """Its store and language."""
        return self.store_id, self.language

    @property
    def id(self) -> str:
        """The id under which it is saved."""
        return template_id(self.name, *self.scope)


class TemplateSearch(NamedTuple):
    """A page of the saved templates."""

    stores: Collection[str] | None = None
    """Only those of these stores, and of all stores; None: any."""
    after: str | None = None
    """The id after which the page begins."""
    take: int | None = None
    """The maximum number of templates; None: all."""


class TemplateRepository:
    """Reads and writes templates."""

    def __init__(self, database: Database) -> None:
        self._templates = database[COLLECTION]

    async def page(self, search: TemplateSearch) -> list[SavedTemplate]:
        """The matching templates, by id: those of all stores before those of single ones."""
        return [saved async for saved in self.each(search)]

    async def each(self, search: TemplateSearch) -> AsyncGenerator[SavedTemplate]:
        """The same one by one, for many: each can be as large as a mail."""
        count = 0
        async with self._templates.find(_criteria(search), batch_size=search.take or 0).sort("_id") as documents:
            async for document in documents:
                saved = read_for_display(TEMPLATE, _saved, document)
                # The store of a damaged one is known only now.
                if search.stores is None or saved.store_id is None or saved.store_id in search.stores:
                    count += 1
                    yield saved
                if count == search.take:
                    return

    async def size(self, search: TemplateSearch) -> int:
        """The stored size of the matching templates in bytes."""
        return await stored_bytes(self._templates, _criteria(search), search.take)

    async def usable(
        self, name: str, store_id: str | None, language: str | None, session: Session | None = None
    ) -> Mapping[TemplateScope, MailTemplate]:
        """The saved templates of this name that can be used for a mail of the store in the language, by scope;
        `domain.templates.by_preference` orders them. Templates of other scopes, however many, aren't read. Raises
        StoredDocumentError for a damaged one."""
        found = await self._for_mail(name, store_id, language, session)
        return {saved.scope: saved.template for saved in map(_usable, found)}

    async def whole(
        self, name: str, store_id: str | None, language: str | None, session: Session | None = None
    ) -> Mapping[TemplateScope, MailTemplate]:
        """The templates of `usable` without damaged ones, so that one can be saved anew."""
        templates: dict[TemplateScope, MailTemplate] = {}
        for document in await self._for_mail(name, store_id, language, session):
            with suppress(StoredDocumentError):
                saved = _usable(document)
                templates[saved.scope] = saved.template
        return templates

    async def _for_mail(
        self, name: str, store_id: str | None, language: str | None, session: Session | None
    ) -> list[Document]:
        ids = [template_id(name, *scope) for scope in fallbacks(store_id, language)]
        return await self._templates.find({**_SAVED, "_id": {"$in": ids}}, session=session).to_list()

    async def get(self, id: str, session: Session | None = None) -> SavedTemplate | None:
        """The template saved under this id (`domain.templates.template_id`), or None."""
        document = await self._templates.find_one({**_SAVED, "_id": id}, session=session)
        return read_for_display(TEMPLATE, _saved, document) if document else None

    async def seen(self, id: str, session: Session) -> Seen:
        """The marks of messages that a template has taken into account, even if it is deleted."""
        document = await self._templates.find_one({"_id": id}, {"seen": 1}, session=session)
        return seen_from((document or {}).get("seen"))

    async def save(self, saved: SavedTemplate, seen: Seen, session: Session) -> None:
        """Save a template, with the marks of the messages that led to it."""
        language, template = canonical_language(saved.language), saved.template
        document = {
            "name": saved.name,
            "storeId": saved.store_id,
            "languageCode": language,
            "subject": template.subject,
            "text": template.text,
            "html": template.html,
            "seen": seen_document(seen),
        }
        id = template_id(saved.name, saved.store_id, language)
        await self._templates.replace_one({"_id": id}, document, upsert=True, session=session)

    async def delete(self, id: str, name: str, seen: Seen, at: datetime, session: Session) -> None:
        """Delete a template; its marks are kept."""
        remembered = {"name": name, "deletedAt": at, "seen": seen_document(seen)}
        await self._templates.replace_one({"_id": id}, remembered, upsert=True, session=session)

    async def mark(self, id: str, seen: Seen, session: Session) -> None:
        """Save the marks of messages that changed nothing; nothing is stored for a template that never existed."""
        await self._templates.update_one({"_id": id}, {"$set": {"seen": seen_document(seen)}}, session=session)


def _criteria(search: TemplateSearch) -> Document:
    """The MongoDB filter for a search; damaged templates match whatever their store is."""
    conditions: Document = {**_SAVED} if search.after is None else {**_SAVED, "_id": {"$gt": search.after}}
    if search.stores is not None:
        conditions["$or"] = [{"storeId": {"$in": list(search.stores)}}, {"storeId": {"$not": {"$type": "string"}}}]
    return conditions


def _usable(document: Document) -> SavedTemplate:
    require(TEMPLATE, document, _PARTS)
    return read(TEMPLATE, _saved, document)


def _saved(document: Document) -> SavedTemplate:
    check_whole(TEMPLATE, document)
    return SavedTemplate(
        document["name"],
        document["storeId"],
        document["languageCode"],
        MailTemplate(document["subject"], document["text"], document["html"]),
    )
