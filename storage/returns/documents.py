"""Returns as MongoDB documents, and the placeholders that refused and deleted ones leave.

The placeholder of a deleted one is marked as such, and has the field of refused ones that the index for expiry uses.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from domain.delivery import Seen
from domain.returns import DeletedReturn, Return
from domain.returns_lines import ReturnLine
from domain.returns_statuses import ReturnStatus
from domain.timestamps import EPOCH
from storage.database import Document
from storage.seen import seen_document, seen_from
from storage.shapes import (
    ARRAY,
    DATE,
    OBJECT,
    STRING,
    TEXT_OR_NULL,
    RequiredField,
    Shape,
    default_field,
    irrecoverable_field,
    read,
    read_for_display,
    require,
)


@dataclass(frozen=True, slots=True)
class RefusedReturn:
    """The placeholder of a refused return."""

    id: str
    seen: Seen


IS_RETURN: Final[Document] = {"refusedAt": None}
"""The filter that leaves out placeholders of refused and deleted returns, for queries for returns by id."""


def _other_date(document: Document) -> datetime:
    """The date that is left of the two, else EPOCH."""
    dates = (document.get("createdDate"), document.get("modifiedDate"))
    return next((date for date in dates if isinstance(date, datetime)), EPOCH)


_REQUIRED: Final = ("orderId", "status", "lines")
"""The fields without which nobody knows how much of its order a return takes."""

RETURN: Final = Shape(
    "returns",
    {
        **dict.fromkeys(("number", "orderId"), irrecoverable_field(STRING, "?")),
        "status": irrecoverable_field(STRING, ReturnStatus.NEW.value),
        "lines": irrecoverable_field(ARRAY, ()),
        **dict.fromkeys(("resolution", "createdBy", "modifiedBy"), default_field(TEXT_OR_NULL)),
        **dict.fromkeys(("createdDate", "modifiedDate"), RequiredField(DATE, _other_date)),
        "seen": default_field(OBJECT, {}),
    },
    IS_RETURN,
)

StoredReturn = Return | RefusedReturn | DeletedReturn


def document_of(stored: StoredReturn, now: datetime) -> Document:
    """A return or a placeholder as it is stored. A placeholder is kept from `now` on; its record's time is the
    sender's."""
    if not isinstance(stored, Return):
        place = {"_id": stored.id, "refusedAt": now, "seen": seen_document(stored.seen)}
        return place | ({"deleted": True} if isinstance(stored, DeletedReturn) else {})
    return {
        "_id": stored.id,
        "number": stored.number,
        "orderId": stored.order_id,
        "status": str(stored.status),
        "resolution": stored.resolution,
        "lines": [
            {
                "id": line.id,
                "orderLineItemId": line.order_line_id,
                "quantity": line.quantity,
                "price": line.price,
                "reason": line.reason,
                "createdDate": line.created,
                "modifiedDate": line.modified,
                "createdBy": line.created_by,
                "modifiedBy": line.modified_by,
            }
            for line in stored.lines
        ],
        "createdDate": stored.created,
        "modifiedDate": stored.modified,
        "createdBy": stored.created_by,
        "modifiedBy": stored.modified_by,
        "storeId": stored.store_id,
        "origin": stored.origin,
        "seen": seen_document(stored.seen),
    }


def stored_from(document: Document, *, is_shown: bool = False) -> StoredReturn:
    """The return or the placeholder in a document. Raises StoredDocumentError, unless it is only to be shown."""
    if "refusedAt" in document:
        kind = DeletedReturn if "deleted" in document else RefusedReturn
        return kind(document["_id"], seen_from(document.get("seen")))
    if is_shown:
        return shown_from(document)
    require(RETURN, document, _REQUIRED)
    return read(RETURN, _return, document)


def removal_of_person(person: str, *, with_texts: bool) -> list[Document]:
    """The update that removes a person's name and, `with_texts`, all free text from a return that can't be read. It
    stays as damaged as it is: what should be a line or a list of them, and isn't, is emptied with the texts."""

    def changes(place: str, texts: Document) -> Document:
        names = {name: _unless_named(f"{place}.{name}", person) for name in ("createdBy", "modifiedBy")}
        return names | (texts if with_texts else {})

    line = {"$mergeObjects": ["$$this", changes("$$this", {"reason": None})]}
    is_line = {"$eq": [{"$type": "$$this"}, "object"]}
    each = {"$cond": [is_line, line, None if with_texts else "$$this"]}
    lines = {"$map": {"input": "$lines", "in": each}}
    kept = {"$cond": [{"$isArray": ["$lines"]}, lines, None if with_texts else "$lines"]}
    return [{"$set": {**changes("$$ROOT", {"resolution": None, "origin": None}), "lines": kept}}]


def _unless_named(place: str, person: str) -> Document:
    """The name in this place, or null if it is the person's, or is no text."""
    is_another = {"$and": [{"$eq": [{"$type": place}, "string"]}, {"$ne": [place, {"$literal": person}]}]}
    return {"$cond": [is_another, place, None]}


def shown_from(document: Document) -> Return:
    """The return in a document, to be shown: with stand-ins for all lost fields."""
    return read_for_display(RETURN, _return, document)


def _return(document: Document) -> Return:
    return Return(
        id=document["_id"],
        number=document["number"],
        order_id=document["orderId"],
        status=document["status"],
        resolution=document["resolution"],
        lines=tuple(_line(document, line) for line in document["lines"]),
        created=document["createdDate"],
        modified=document["modifiedDate"],
        created_by=document["createdBy"],
        modified_by=document["modifiedBy"],
        store_id=document.get("storeId"),
        origin=document.get("origin"),
        seen=seen_from(document.get("seen")),
    )


def _line(document: Document, line: Document) -> ReturnLine:
    return ReturnLine(
        id=line["id"],
        order_line_id=line["orderLineItemId"],
        quantity=line["quantity"],
        price=line.get("price"),
        reason=line.get("reason"),
        created=line.get("createdDate") or document["createdDate"],
        modified=line.get("modifiedDate") or document["modifiedDate"],
        created_by=line.get("createdBy"),
        modified_by=line.get("modifiedBy"),
    )
