"""Reviews as the interface shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict

from domain.reviews import ReviewStatus
from domain.stores import Store
from domain.timestamps import timestamp
from storage.database import Document


class ReviewRow(TypedDict):
    """A review in a list."""

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


class ReviewDetails(ReviewRow):
    """One review."""

    storeId: str | None
    userId: str | None
    modifiedDate: str


class ReviewList(TypedDict):
    """One page of a list, and how many reviews there are over all pages."""

    totalCount: int
    results: list[ReviewRow]


def review_row(document: Document, stores: Mapping[str, Store]) -> ReviewRow:
    """A stored review as a row."""
    status = ReviewStatus(document["status"])
    return {
        "id": document["_id"],
        "entityId": document["entityId"],
        "entityName": document["entityName"],
        "entityType": document["entityType"],
        "reviewStatus": status.label,
        "reviewStatusId": int(status),
        "title": document["title"],
        "review": document["review"],
        "rating": rating_number(document["ratingHundredths"]),
        "userName": document["userName"],
        "storeName": store_name(document["storeId"], stores),
        "createdDate": timestamp(document["createdDate"]),
    }


def review_details(document: Document, stores: Mapping[str, Store]) -> ReviewDetails:
    """A stored review with all that is told of it."""
    return {
        **review_row(document, stores),
        "storeId": document["storeId"],
        "userId": document["userId"],
        "modifiedDate": timestamp(document["modifiedDate"]),
    }


def text_to_come(document: Document) -> int:
    """The length in bytes of a text that was left out of a list, 0 where it is there."""
    return document["review"] if isinstance(document["review"], int) else 0


def text_size(document: Document) -> int:
    """The size of the text of a review in a list, left out or not; in bytes, or nearly so."""
    return text_to_come(document) or len(document["review"])


def rating_number(hundredths: int) -> int | float:
    """A rating in hundredths as a number: whole where it is whole."""
    whole, rest = divmod(hundredths, 100)
    return hundredths / 100 if rest else whole


def store_name(store_id: str | None, stores: Mapping[str, Store]) -> str | None:
    """The store's name, else its id; None without a store."""
    store = stores.get(store_id) if store_id is not None else None
    return (store and store.name) or store_id


def store_ids(documents: Any) -> set[str]:
    """The stores that these reviews belong to."""
    return {document["storeId"] for document in documents if document["storeId"] is not None}
