"""Reviews, returns and moderation as tools write them into files: the fields of HTTP, in a form of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict

from domain.ratings import rating_number
from domain.returns import Return
from domain.reviews import Moderation, Review
from domain.stores import Store, store_name
from domain.timestamps import timestamp
from storage.audit import AuditEntry


class ReviewRecord(TypedDict):
    """A review in an export; the fields are the columns of CSV, in this order."""

    id: str
    entityId: str
    entityName: str | None
    entityType: str
    reviewStatus: str
    reviewStatusId: int
    title: str | None
    review: str
    rating: int | float
    userName: str | None
    storeName: str | None
    createdDate: str
    storeId: str | None
    userId: str | None
    modifiedDate: str


def review_record(review: Review, stores: Mapping[str, Store]) -> ReviewRecord:
    """A review; `stores` has the registered ones by id."""
    return {
        "id": review.id,
        "entityId": review.entity.id,
        "entityName": review.entity_name,
        "entityType": review.entity.type,
        "reviewStatus": review.status.label,
        "reviewStatusId": int(review.status),
        "title": review.title,
        "review": review.text,
        "rating": rating_number(review.rating),
        "userName": review.user_name,
        "storeName": store_name(review.store_id, stores),
        "createdDate": timestamp(review.created),
        "storeId": review.store_id,
        "userId": review.user_id,
        "modifiedDate": timestamp(review.modified),
    }


def return_record(stored: Return) -> dict[str, Any]:
    """A return with its lines, without its order."""
    return {
        "id": stored.id,
        "number": stored.number,
        "orderId": stored.order_id,
        "status": stored.status,
        "resolution": stored.resolution,
        "lineItems": [
            {
                "id": line.id,
                "orderLineItemId": line.order_line_id,
                "quantity": line.quantity,
                "price": line.price,
                "reason": line.reason,
                "createdDate": timestamp(line.created),
                "modifiedDate": timestamp(line.modified),
                "createdBy": line.created_by,
                "modifiedBy": line.modified_by,
            }
            for line in stored.lines
        ],
        "createdDate": timestamp(stored.created),
        "modifiedDate": timestamp(stored.modified),
        "createdBy": stored.created_by,
        "modifiedBy": stored.modified_by,
    }


def audit_record(entry: AuditEntry) -> dict[str, Any]:
    """A moderation that took effect."""
    return {
        "at": entry.at,
        "subject": entry.subject,
        "action": entry.action,
        "reviewId": entry.review_id,
        "entityType": entry.entity.type,
        "entityId": entry.entity.id,
        "storeId": entry.store_id,
        "reason": entry.reason,
        "commandId": entry.command_id,
    }


def waiting_record(command: Moderation) -> dict[str, Any]:
    """A moderation command that waits for its review."""
    return {
        "reviewId": command.review_id,
        "action": command.action,
        "at": command.at,
        "moderator": command.moderator,
        "reason": command.reason,
    }
