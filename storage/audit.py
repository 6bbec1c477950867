"""The audit log: who moderated, edited or replied to which review, when and why, who deleted which return, and who
changed which settings, store or template, or replayed or discarded which dead letter.

It never holds what a person wrote.
"""

from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from operator import itemgetter
from typing import Final, NamedTuple

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel

from domain.ratings import Entity
from domain.reviews_facts import ReasonCode
from domain.timestamps import EPOCH
from storage.database import Database, Document, Session, ids_of_objects, in_stores
from storage.id_ranges import OBJECT_IDS, found_in_ranges, update_in_ranges

COLLECTION: Final = "auditLog"

_IDS_END: Final = datetime(2106, 1, 1, tzinfo=UTC)

_NEWEST: Final = [("at", DESCENDING), ("_id", DESCENDING)]

INDEXES: Final = [
    IndexModel(_NEWEST, name="newest"),
    IndexModel([("reviewId", ASCENDING), *_NEWEST], name="review_newest"),
    IndexModel([("storeId", ASCENDING), *_NEWEST], name="store_newest"),
]


class AuditAction(StrEnum):
    """The deed of an entry. `hold` and `flag`: by a moderation rule or a verdict, so that the review waits for a
    moderator. `fields` of an entry names the image that was hidden or shown, the settings that changed, or the value of
    a dead letter that was mended."""

    APPROVE = "approve"
    REJECT = "reject"
    RESET = "reset"
    DELETE = "delete"
    RESTORE = "restore"
    EDIT = "edit"
    REPLY = "reply"
    REMOVE_REPLY = "remove-reply"
    HOLD = "hold"
    FLAG = "flag"
    HIDE_IMAGE = "hide-image"
    SHOW_IMAGE = "show-image"
    REGISTER = "register"
    CHANGE = "change"
    REPLAY = "replay"
    DISCARD = "discard"


class AuditKind(StrEnum):
    """The kind of thing that an entry is about."""

    REVIEW = "review"
    RETURN = "return"
    STORE = "store"
    SETTINGS = "settings"
    TEMPLATE = "template"
    LETTER = "letter"


class AuditEntry(NamedTuple):
    """One moderation or edit of a review, reply to one, deletion of a return, change of settings, a store or a
    template, or replay of a dead letter, that took effect.

    At most one of review, return, template and letter (its place) is set; a change of the general settings has none,
    nor a store. `subject` is None where authentication was off, but for authors; `rule:<id>` and `verdict:<source>` are
    no persons. `fields` are the names of those that an edit or a change changed.
    """

    at: datetime
    subject: str | None
    action: AuditAction
    review_id: str | None = None
    entity: Entity | None = None
    store_id: str | None = None
    reason: str | None = None
    command_id: str | None = None
    return_id: str | None = None
    fields: tuple[str, ...] = ()
    reason_code: ReasonCode | None = None
    template: str | None = None
    language: str | None = None
    letter: str | None = None

    @property
    def may_be_of_customer(self) -> bool:
        """True for what customers do themselves, too: they edit their reviews and delete their returns."""
        return self.action is AuditAction.EDIT or self.return_id is not None

    @property
    def kind(self) -> AuditKind:
        """The kind of thing that it is about."""
        if self.review_id is not None:
            return AuditKind.REVIEW
        if self.return_id is not None:
            return AuditKind.RETURN
        if self.template is not None:
            return AuditKind.TEMPLATE
        if self.letter is not None:
            return AuditKind.LETTER
        return AuditKind.SETTINGS if self.store_id is None else AuditKind.STORE


@dataclass(frozen=True, slots=True)
class AuditSearch:
    """Criteria; each one that is set must hold."""

    review_id: str | None = None
    subject: str | None = None
    action: AuditAction | None = None
    kind: AuditKind | None = None
    stores: Collection[str] | None = None
    since: datetime | None = None
    until: datetime | None = None
    skip: int = 0
    take: int = 20


class AuditLog:
    """Writes and reads entries; nothing changes them, but that authors are forgotten."""

    def __init__(self, database: Database) -> None:
        self._entries = database[COLLECTION]

    async def add(self, entries: Iterable[AuditEntry], now: datetime, session: Session) -> None:
        """Write entries with what they tell of, which is now."""
        documents = [_document(entry, now) for entry in entries]
        if documents:
            await self._entries.insert_many(documents, ordered=False, session=session)

    async def forget_author(self, subject: str) -> int:
        """Take the name of a customer out of the entries that may be a customer's; returns how many there were."""
        theirs = {"subject": subject, "$or": [{"action": AuditAction.EDIT.value}, {"returnId": {"$ne": None}}]}
        return await update_in_ranges(self._entries, OBJECT_IDS, theirs, {"$set": {"subject": None}})

    async def of_subject(self, subject: str) -> list[AuditEntry]:
        """Every entry of somebody, the newest first. MongoDB looks at every entry: few ask for it."""
        found = [each async for each in found_in_ranges(self._entries, OBJECT_IDS, {"subject": subject})]
        return [entry_from(each) for each in sorted(found, key=itemgetter("at", "_id"), reverse=True)]

    async def entities_moderated_since(self, moment: datetime, stores: Collection[str] | None) -> AsyncIterator[str]:
        """The ids of objects of which a review, in one of these stores or anywhere, was moderated at that moment or
        later: when it took effect counts, not when it was asked for. Ascending, each once."""
        # An id tells the second in which it was made: its index serves where another one would cost every approval.
        first = first_id_of(moment)
        since = {"_id": {"$gte": first}, "effectiveAt": {"$gte": moment}}
        return await ids_of_objects(self._entries, {**since, **in_stores(stores)})

    async def search(self, search: AuditSearch) -> list[AuditEntry]:
        """One page, the newest first."""
        if search.take == 0:
            return []
        found = self._entries.find(_filter(search)).sort(_NEWEST).skip(search.skip).limit(search.take)
        return [entry_from(document) async for document in found]

    async def every(self, search: AuditSearch, most: int | None = None) -> AsyncIterator[AuditEntry]:
        """All entries that match, over all pages, the newest first; or so many of them (at least 1)."""
        async for document in self._entries.find(_filter(search)).sort(_NEWEST).limit(most or 0):
            yield entry_from(document)

    async def count(self, search: AuditSearch) -> int:
        """The number of entries that match, over all pages."""
        return await self._entries.count_documents(_filter(search))


def first_id_of(moment: datetime) -> ObjectId:
    """The lowest id of entries that took effect in that second or later."""
    return ObjectId.from_datetime(min(max(moment, EPOCH), _IDS_END))


def _filter(search: AuditSearch) -> Document:
    conditions: Document = {}
    for name, value in (("reviewId", search.review_id), ("subject", search.subject), ("action", search.action)):
        if value is not None:
            conditions[name] = str(value)
    if search.kind is not None:
        conditions = {**_of_kind(search.kind), **conditions}
    if search.stores is not None:
        conditions["storeId"] = {"$in": list(search.stores)}
    at: Document = {}
    if search.since is not None:
        at["$gte"] = search.since
    if search.until is not None:
        at["$lte"] = search.until
    return conditions | ({"at": at} if at else {})


def _of_kind(kind: AuditKind) -> Document:
    if kind is AuditKind.REVIEW:
        return {"reviewId": {"$ne": None}}
    # The index of reviews has what is about none in one place; earlier versions told no kind of returns.
    return {"reviewId": None, **({"returnId": {"$ne": None}} if kind is AuditKind.RETURN else {"kind": kind.value})}


def _document(entry: AuditEntry, now: datetime) -> Document:
    return {
        "at": entry.at,
        "effectiveAt": now,
        "subject": entry.subject,
        "action": entry.action.value,
        "storeId": entry.store_id,
        "reason": entry.reason,
        "commandId": entry.command_id,
        **_about(entry),
        **({"entityType": entry.entity.type, "entityId": entry.entity.id} if entry.entity is not None else {}),
        **({"fields": list(entry.fields)} if entry.fields else {}),
        **({"reasonCode": entry.reason_code} if entry.reason_code else {}),
        **({"letter": entry.letter} if entry.letter else {}),
    }


def _about(entry: AuditEntry) -> Document:
    match entry.kind:
        case AuditKind.REVIEW:
            return {"reviewId": entry.review_id}
        case AuditKind.RETURN:
            return {"returnId": entry.return_id}
        case AuditKind.TEMPLATE:
            return {"kind": entry.kind.value, "template": entry.template, "language": entry.language}
        case _:
            return {"kind": entry.kind.value}


def entry_from(document: Document) -> AuditEntry:
    """The entry in its document."""
    return AuditEntry(
        at=document["at"],
        subject=document["subject"],
        action=AuditAction(document["action"]),
        review_id=document.get("reviewId"),
        entity=Entity(document["entityType"], document["entityId"]) if "entityId" in document else None,
        store_id=document["storeId"],
        reason=document["reason"],
        command_id=document["commandId"],
        return_id=document.get("returnId"),
        fields=tuple(document.get("fields", ())),
        reason_code=ReasonCode(document["reasonCode"]) if "reasonCode" in document else None,
        template=document.get("template"),
        language=document.get("language"),
        letter=document.get("letter"),
    )
