"""The images that reviews hold, as consumers that change single ones read and write them, in a transaction."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from domain.ratings import Entity
from domain.reviews import ReviewStatus
from domain.reviews_facts import ReviewImage
from storage.database import Database, Document, Session
from storage.queries import ONE_ANSWER
from storage.reviews.facts import image_fields, images_from
from storage.reviews.repository import COLLECTION
from storage.reviews.shape import IS_REVIEW, REVIEW
from storage.shapes import read

_FIELDS: Final = dict.fromkeys(("entityType", "entityId", "storeId", "userId", "status", "images"), 1)


@dataclass(frozen=True, slots=True)
class ReviewWithImages:
    """The part of a review that concerns its images."""

    id: str
    entity: Entity
    store_id: str | None
    user_id: str | None
    status: ReviewStatus
    images: tuple[ReviewImage, ...]

    def image(self, id: str) -> ReviewImage | None:
        """One of its images, or None."""
        return next((image for image in self.images if image.id == id), None)

    def with_images(self, images: tuple[ReviewImage, ...]) -> "ReviewWithImages":
        """The review with other images."""
        return replace(self, images=images)


class ReviewImageRepository:
    """Reads and writes the images of reviews."""

    def __init__(self, database: Database) -> None:
        self._reviews = database[COLLECTION]

    async def get(self, id: str | None, session: Session | None = None) -> ReviewWithImages | None:
        """One review, or None."""
        return (await self.of_ids([id], session)).get(id) if id is not None else None

    async def of_ids(self, ids: Collection[str], session: Session | None = None) -> dict[str, ReviewWithImages]:
        """These reviews by id; unknown, deleted and refused ones are left out. Raises StoredDocumentError."""
        if not ids:
            return {}
        wanted: Document = {"_id": {"$in": list(ids)}, **IS_REVIEW}
        found = self._reviews.find(wanted, _FIELDS, batch_size=ONE_ANSWER, session=session)
        return {document["_id"]: read(REVIEW, _review, document) async for document in found}

    async def save(self, review: ReviewWithImages, session: Session, modified: datetime | None = None) -> None:
        """Write the images of a review; with `modified`, also its modification date, unless that is later."""
        update: Document = {"$set": {"images": [image_fields(image) for image in review.images]}}
        if modified is not None:
            update["$max"] = {"modifiedDate": modified}
        await self._reviews.update_one({"_id": review.id}, update, session=session)

    async def remove(self, id: str, image_id: str, session: Session) -> None:
        """Remove an image from a review, also from a damaged one."""
        wanted = {"_id": id, "images": {"$elemMatch": {"id": image_id}}}
        await self._reviews.update_one(wanted, {"$pull": {"images": {"id": image_id}}}, session=session)


def _review(document: Document) -> ReviewWithImages:
    return ReviewWithImages(
        document["_id"],
        Entity(document["entityType"], document["entityId"]),
        document["storeId"],
        document["userId"],
        ReviewStatus(document["status"]),
        images_from(document),
    )
