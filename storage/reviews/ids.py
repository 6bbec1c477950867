"""Holders of ids: reviews, refused submissions, and placeholders of deleted reviews."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from domain.delivery import RecordPosition, Seen, Written
from domain.ratings import Entity
from domain.reviews import ReviewIdentity
from domain.reviews_refusals import Refusal
from storage.database import Document
from storage.reviews.documents import written_from
from storage.reviews.shape import REVIEW
from storage.seen import seen_document, seen_from
from storage.shapes import check_present, read, with_stand_ins

HOLDER: Final[Document] = dict.fromkeys(
    (
        *("createdDate", "submittedAt", "entityType", "entityId", "storeId", "userId", "refused", "goneAt", "seen"),
        *("writtenAt", "messages", "told"),
    ),
    1,
)
"""The projection of a document for the holder of its id."""

_IDENTITY: Final = ("entityType", "entityId", "storeId", "userId")

PLACEHOLDER: Final[Document] = {
    **{name: f"${name}" for name in ("_id", "told", "writtenAt")},
    "submittedAt": {"$ifNull": ["$submittedAt", "$createdDate"]},
    "goneAt": "$$NOW",
}
"""The placeholder of a deleted review, as an expression on its document; fields that it lacks are left out."""


@dataclass(frozen=True, slots=True)
class RefusedSubmission:
    """A submission that was refused, and holds its id until it is submitted again and accepted."""

    id: str
    reason: Refusal
    seen: Seen


@dataclass(frozen=True, slots=True)
class IdHolder:
    """The holder of an id: a review, a refused submission or, with neither, a deleted review."""

    created: datetime | None = None
    """The time of its first submission."""
    identity: ReviewIdentity | None = None
    written: Written | None = None
    """The last record that wrote the review, and the messages that did; of a deleted review only the record."""
    refused: RefusedSubmission | None = None
    is_announced: bool = False
    """True if the transaction that stored its review also emitted its event `ReviewSubmitted`."""


def holder_from(document: Document) -> IdHolder:
    """The holder of an id, from a document with the fields of HOLDER."""
    if "refused" in document:
        reason, seen = Refusal(document["refused"]), seen_from(document.get("seen"))
        return IdHolder(refused=RefusedSubmission(document["_id"], reason, seen))
    is_announced = document.get("told", False)
    if is_gone(document):
        return IdHolder(document.get("submittedAt"), written=_last_record(document), is_announced=is_announced)
    whole = with_stand_ins(REVIEW, document)
    created = whole.get("submittedAt", whole["createdDate"])
    return IdHolder(created, identity_from(whole), read(REVIEW, written_from, document), is_announced=is_announced)


def identity_from(document: Document) -> ReviewIdentity:
    """The identity of a stored review, also if it can be that of no submission, as a field has another type."""
    return read(REVIEW, _identity, document)


def sound_identity_from(document: Document) -> ReviewIdentity:
    """The identity of a stored review, to be compared with others. Raises StoredDocumentError: a field has another
    type."""
    return read(REVIEW, _sound_identity, document)


def is_gone(document: Document) -> bool:
    """True for the placeholder of a refused or deleted review."""
    return "goneAt" in document


def _identity(document: Document) -> ReviewIdentity:
    entity = Entity(document["entityType"], document["entityId"])
    return ReviewIdentity(entity, document["storeId"], document["userId"])


def _sound_identity(document: Document) -> ReviewIdentity:
    check_present(REVIEW, document, _IDENTITY)
    return _identity(document)


def _last_record(document: Document) -> Written | None:
    """The record that last wrote a deleted review; None if 0.1.0 deleted it, or the field is damaged."""
    match document.get("writtenAt"):
        case [int(partition), int(offset), int(timestamp)]:
            return Written(RecordPosition(partition, offset, timestamp))
        case _:
            return None


def refused_document(refused: RefusedSubmission) -> Document:
    """A refused submission as it is stored. It is kept from now on: the time of its record is the sender's."""
    return {
        "_id": refused.id,
        "refused": refused.reason.value,
        "goneAt": datetime.now(UTC),
        "seen": seen_document(refused.seen),
    }
