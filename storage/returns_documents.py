"""Returns as MongoDB documents, and the places that refused and deleted ones leave.

A deleted one is marked as such, and has the field of refused ones that the index of what expires is about.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from domain.delivery import Seen
from domain.returns import DeletedReturn, Return, ReturnLine
from storage.database import Document
from storage.seen import seen_document, seen_from


@dataclass(frozen=True, slots=True)
class RefusedReturn:
    """The place of a return that was refused."""

    id: str
    at: datetime
    seen: Seen


StoredReturn = Return | RefusedReturn | DeletedReturn


def document_of(stored: StoredReturn) -> Document:
    """A return, or the place of one, as it is stored."""
    if not isinstance(stored, Return):
        place = {"_id": stored.id, "refusedAt": stored.at, "seen": seen_document(stored.seen)}
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
        "seen": seen_document(stored.seen),
    }


def stored_from(document: Document) -> StoredReturn:
    """The return in a document, or the place of one."""
    seen = seen_from(document["seen"])
    if "number" not in document:
        kind = DeletedReturn if "deleted" in document else RefusedReturn
        return kind(document["_id"], document["refusedAt"], seen)
    return Return(
        id=document["_id"],
        number=document["number"],
        order_id=document["orderId"],
        status=document["status"],
        resolution=document["resolution"],
        lines=tuple(
            ReturnLine(
                id=line["id"],
                order_line_id=line["orderLineItemId"],
                quantity=line["quantity"],
                price=line["price"],
                reason=line["reason"],
                created=line["createdDate"],
                modified=line["modifiedDate"],
                created_by=line["createdBy"],
                modified_by=line["modifiedBy"],
            )
            for line in document["lines"]
        ),
        created=document["createdDate"],
        modified=document["modifiedDate"],
        created_by=document["createdBy"],
        modified_by=document["modifiedBy"],
        store_id=document.get("storeId"),
        seen=seen,
    )
