"""The audit log: moderation, edits of and replies to reviews, deletions of returns, changes of settings, stores and
templates, and replays and discards of dead letters, each with its subject, time and reason.

It holds no content: of an edit or a change, only the names of the fields.
"""

from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from operator import itemgetter
from typing import Final, NamedTuple

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel

from domain.ratings import Entity, TallyKey
from domain.reviews_facts import ReasonCode
from domain.timestamps import EPOCH
from storage.database import Database, Document, Session
from storage.id_ranges import OBJECT_IDS, found_in_ranges, update_in_ranges
from storage.queries import ids_of_objects, in_range, in_stores

COLLECTION: Final = "auditLog"
AT_ONCE: Final = 200
"""Number of entries that are read at a time: by default, a cursor gets 16 MB of them."""

_IDS_END: Final = datetime(2106, 1, 1, tzinfo=UTC)

_NEWEST: Final = [("at", DESCENDING), ("_id", DESCENDING)]

INDEXES: Final = [
    IndexModel(_NEWEST, name="newest"),
    IndexModel([("reviewId", ASCENDING), *_NEWEST], name="review_newest"),
    IndexModel([("storeId", ASCENDING), *_NEWEST], name="store_newest"),
]


class AuditAction(StrEnum):
    """The action of an entry. `hold` and `flag` come from a moderation rule or a verdict: the review then waits for a
    moderator. `fields` names the hidden or shown image, the changed settings, or `value` for a mended dead letter."""

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
    """The kind of thing that an entry concerns."""

    REVIEW = "review"
    RETURN = "return"
    STORE = "store"
    SETTINGS = "settings"
    TEMPLATE = "template"
    LETTER = "letter"


class AuditEntry(NamedTuple):
    """One action that took effect: a moderation or edit of a review, a reply to one, the deletion of a return, a change
    of settings, a store or a template, or the replay or discard of a dead letter.

    At most one of `review_id`, `return_id`, `template` and `letter` is set. A change of the general settings has none
    of them, and no store.
    """

    at: datetime
    subject: str | None
    """None where authentication was off, except for authors; `rule:<id>` and `verdict:<source>` are not persons."""
    action: AuditAction
    review_id: str | None = None
    entity: Entity | None = None
    store_id: str | None = None
    reason: str | None = None
    command_id: str | None = None
    return_id: str | None = None
    fields: tuple[str, ...] = ()
    """The names of the fields that an edit or a change changed."""
    reason_code: ReasonCode | None = None
    template: str | None = None
    language: str | None = None
    letter: str | None = None
    """The place of a dead letter."""

    def about(self, review_id: str, key: TallyKey) -> "AuditEntry":
        """The entry as one about a review, with the key of its rating."""
        return self._replace(review_id=review_id, entity=key.entity, store_id=key.store_id)

    @property
    def may_be_of_customer(self) -> bool:
        """True for actions that customers take, too: they edit their reviews and delete their returns."""
        return self.action is AuditAction.EDIT or self.return_id is not None

    @property
    def kind(self) -> AuditKind:
        """The kind of thing that the entry concerns."""
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
    """Search criteria: an entry must meet all that are set."""

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
    """Writes and reads entries. They never change, except that `forget_author` removes names."""

    def __init__(self, database: Database) -> None:
        self._entries = database[COLLECTION]

    async def add(self, entries: Iterable[AuditEntry], now: datetime, session: Session) -> None:
        """Insert entries in the transaction of the changes that they record, which take effect `now`."""
        documents = [_document(entry, now) for entry in entries]
        if documents:
            await self._entries.insert_many(documents, ordered=False, session=session)

    async def forget_author(self, subject: str) -> int:
        """Remove a customer's name from the entries that may be a customer's; returns the number of entries changed."""
        may_be_theirs = {"subject": subject, "$or": [{"action": AuditAction.EDIT.value}, {"returnId": {"$ne": None}}]}
        return await update_in_ranges(self._entries, OBJECT_IDS, may_be_theirs, {"$set": {"subject": None}})

    async def of_subject(self, subject: str) -> list[AuditEntry]:
        """All entries of a subject, newest first. MongoDB scans all entries, for few callers."""
        found = [each async for each in found_in_ranges(self._entries, OBJECT_IDS, {"subject": subject})]
        return [entry_from(each) for each in sorted(found, key=itemgetter("at", "_id"), reverse=True)]

    async def entities_moderated_since(self, moment: datetime, stores: Collection[str] | None) -> AsyncIterator[str]:
        """The ids of objects with a review, in one of these stores or in any, that was moderated at this moment or
        later, ascending and distinct. The time at which the moderation took effect counts, not that of its command."""
        # An ObjectId holds the second of its creation, which saves an index of its own that would slow down every
        # approval.
        first = first_id_of(moment)
        since = {"_id": {"$gte": first}, "effectiveAt": {"$gte": moment}}
        return await ids_of_objects(self._entries, {**since, **in_stores(stores)})

    async def search(self, search: AuditSearch) -> list[AuditEntry]:
        """One page, newest first."""
        if search.take == 0:
            return []
        found = self._entries.find(_filter(search)).sort(_NEWEST).skip(search.skip).limit(search.take)
        return [entry_from(document) async for document in found]

    async def every(self, search: AuditSearch, most: int | None) -> AsyncIterator[AuditEntry]:
        """All matching entries over all pages, newest first; with `most`, at most that many (at least 1). Memory holds
        AT_ONCE of them."""
        async for document in self._entries.find(_filter(search), batch_size=AT_ONCE).sort(_NEWEST).limit(most or 0):
            yield entry_from(document)

    async def count(self, search: AuditSearch, *, exact_below: int) -> int:
        """The number of matching entries over all pages. From `exact_below` on, that of the whole log is MongoDB's own,
        which needs no scan, and which a crash of MongoDB can make slightly wrong."""
        conditions = _filter(search)
        if conditions:
            return await self._entries.count_documents(conditions)
        exact = await self._entries.count_documents({}, limit=exact_below)
        return exact if exact < exact_below else await self._entries.estimated_document_count()


def first_id_of(moment: datetime) -> ObjectId:
    """The lowest id of entries that took effect in the second of this moment or later."""
    return ObjectId.from_datetime(min(max(moment, EPOCH), _IDS_END))


def _filter(search: AuditSearch) -> Document:
    conditions: Document = {}
    for name, value in (("reviewId", search.review_id), ("subject", search.subject), ("action", search.action)):
        if value is not None:
            conditions[name] = str(value)
    if search.kind is not None:
        conditions = {**_kind_filter(search.kind), **conditions}
    if search.stores is not None:
        conditions["storeId"] = {"$in": list(search.stores)}
    if at := in_range(search.since, search.until):
        conditions["at"] = at
    return conditions


def _kind_filter(kind: AuditKind) -> Document:
    if kind is AuditKind.REVIEW:
        return {"reviewId": {"$ne": None}}
    # The index by review has all entries without a review in one place. Those about returns have no kind.
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
    """The entry in a document."""
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
