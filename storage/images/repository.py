"""Images of reviews: the state of each upload, and the review that has it. The files are in the image store.

An image that is gone leaves a placeholder `{_id, state, goneAt}` for as long as its upload might be delivered again,
and `unswept` until its files are removed: true, a new mark each time that files may have been written since, or the
time at which they couldn't be removed.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

from pymongo import ASCENDING, IndexModel, UpdateOne

from domain.images import ImageState, StoredImage, UploadRefusal
from domain.timestamps import EPOCH
from storage.database import Database, Document, Session
from storage.queries import write_all
from storage.seen import seen_document, seen_from
from storage.shapes import (
    DATE,
    STRING,
    RequiredField,
    Shape,
    irrecoverable_field,
    is_field_damaged,
    read,
    read_for_display,
)

COLLECTION: Final = "images"

_FEW: Final = 5
_AWAITED: Final[Document] = {"state": ImageState.AWAITED.value}

INDEXES: Final = [
    IndexModel([("reviewId", ASCENDING)], name="review", sparse=True),
    IndexModel([("uploader", ASCENDING)], name="uploader", sparse=True),
    IndexModel([("unusedSince", ASCENDING)], name="unused", sparse=True),
    IndexModel([("unswept", ASCENDING)], name="unswept", sparse=True),
    IndexModel([("goneAt", ASCENDING)], name="gone", sparse=True),
    IndexModel([("at", ASCENDING)], name="awaited", partialFilterExpression=_AWAITED),
]

_TO_GONE: Final[list[Document]] = [
    {"$replaceWith": {"_id": "$_id", "state": ImageState.GONE.value, "goneAt": "$$NOW", "unswept": True}}
]
_NOT_GONE: Final[Document] = {"state": {"$ne": ImageState.GONE.value}}


def _state(document: Document) -> str:
    """The state, derived from the fields that only images in that state have."""
    if "goneAt" in document:
        return ImageState.GONE.value
    if "refusal" in document:
        return ImageState.REFUSED.value
    return (ImageState.READY if "width" in document else ImageState.AWAITED).value


def _at(document: Document) -> datetime:
    for value in (document.get("goneAt"), document.get("unusedSince")):
        if isinstance(value, datetime):
            return value
    return EPOCH


IMAGE: Final = Shape(
    COLLECTION,
    {
        # Such an image has no files: no upload can have its id.
        "_id": irrecoverable_field(STRING, "?"),
        "state": RequiredField(STRING, _state),
        "at": RequiredField(DATE, _at),
    },
    {"goneAt": None},
)


UnsweptMark = bool | str | datetime


class ImageRepository:
    """Reads and writes images."""

    def __init__(self, database: Database) -> None:
        self._images = database[COLLECTION]

    async def of_ids(self, ids: Collection[str], session: Session | None = None) -> dict[str, StoredImage]:
        """These images by id; unknown ones are left out. Raises StoredDocumentError."""
        if not ids:
            return {}
        found = self._images.find({"_id": {"$in": list(ids)}}, session=session)
        return {document["_id"]: read(IMAGE, _image, document) async for document in found}

    async def get(self, id: str) -> StoredImage | None:
        """One image, or None."""
        return (await self.of_ids([id])).get(id)

    async def save(self, image: StoredImage, session: Session) -> None:
        """Write an image that isn't gone."""
        await self._images.replace_one({"_id": image.id}, _document(image), upsert=True, session=session)

    async def save_seen(self, image: StoredImage, session: Session) -> None:
        """Write the marks of commands that an image has taken into account, unless it is gone."""
        await self._images.update_one(
            {"_id": image.id, **_NOT_GONE}, {"$set": {"seen": seen_document(image.seen)}}, session=session
        )

    async def give(self, holders: Mapping[str, str], at: datetime, session: Session) -> None:
        """Assign images to reviews, by image id; unknown images become awaited."""
        writes = [
            UpdateOne(
                {"_id": id},
                {
                    "$set": {"reviewId": review_id},
                    "$unset": {"unusedSince": ""},
                    "$setOnInsert": {"state": ImageState.AWAITED.value, "at": at},
                },
                upsert=True,
            )
            for id, review_id in holders.items()
        ]
        await write_all(self._images, writes, session)

    async def give_up(self, ids: Collection[str], session: Session) -> None:
        """Mark these images as gone: nobody can fetch them any more, and their files will be removed."""
        if ids:
            await self._images.update_many({"_id": {"$in": list(ids)}, **_NOT_GONE}, _TO_GONE, session=session)

    async def give_up_of_reviews(self, review_ids: Collection[str], session: Session) -> None:
        """Mark the images of deleted reviews as gone."""
        if review_ids:
            await self._images.update_many({"reviewId": {"$in": list(review_ids)}}, _TO_GONE, session=session)

    async def are_unused(self, before: datetime) -> bool:
        """True if an image has belonged to no review since before this moment."""
        return await self._images.find_one({"unusedSince": {"$lt": before}}, {"_id": 1}) is not None

    async def give_up_unused(self, before: datetime) -> int:
        """Mark the images as gone that have belonged to no review since before this moment; returns the number."""
        return (await self._images.update_many({"unusedSince": {"$lt": before}}, _TO_GONE)).modified_count

    async def awaited_before(self, moment: datetime, limit: int) -> list[str]:
        """Ids of at most `limit` images that reviews have awaited since before this moment, longest first."""
        found = self._images.find({**_AWAITED, "at": {"$lt": moment}}, {"_id": 1}).sort("at").limit(limit)
        return [document["_id"] async for document in found if _has_text_id(document)]

    async def some_ready(self) -> list[str]:
        """Ids of a few ready images of reviews."""
        # Uses the index by review.
        found = self._images.find({"reviewId": {"$exists": True}, "state": ImageState.READY.value}, {"_id": 1})
        return [document["_id"] async for document in found.limit(_FEW)]

    async def unswept(self, tried_before: datetime, limit: int) -> dict[str, UnsweptMark]:
        """At most `limit` gone images that may still have files: their marks by id. Those whose files couldn't be
        removed come last, in the order of these attempts, and only if that was before `tried_before`."""
        due = {"$or": [{"unswept": {"$type": ["bool", "string"]}}, {"unswept": {"$lt": tried_before}}]}
        # In the order of BSON types, dates come last.
        found = self._images.find(due, {"unswept": 1}).sort("unswept").limit(limit)
        return {document["_id"]: document["unswept"] async for document in found if _has_text_id(document)}

    async def note_swept(self, swept: Mapping[str, UnsweptMark]) -> None:
        """Record that the files of these images are removed, unless the mark has changed: files were written since."""
        writes = [UpdateOne({"_id": id, "unswept": mark}, {"$unset": {"unswept": ""}}) for id, mark in swept.items()]
        await write_all(self._images, writes)

    async def note_unremovable(self, ids: Collection[str], at: datetime) -> None:
        """Record that the files of these gone images couldn't be removed at that time."""
        if ids:
            gone = {"_id": {"$in": list(ids)}, "state": ImageState.GONE.value}
            await self._images.update_many(gone, {"$set": {"unswept": at}})

    async def note_unswept(self, id: str, session: Session) -> None:
        """Record that files of a gone image may have been written since."""
        gone = {"_id": id, "state": ImageState.GONE.value}
        await self._images.update_one(gone, {"$set": {"unswept": str(uuid4())}}, session=session)

    async def gone_before(self, moment: datetime, limit: int) -> list[str]:
        """Ids of at most `limit` images that have been gone since before this moment, without those of `unswept`."""
        found = self._images.find({"goneAt": {"$lt": moment}, "unswept": {"$exists": False}}, {"_id": 1}).limit(limit)
        return [document["_id"] async for document in found if _has_text_id(document)]

    async def forget(self, ids: Collection[str]) -> None:
        """Remove the placeholders of images that are gone."""
        await self._images.delete_many({"_id": {"$in": list(ids)}, "state": ImageState.GONE.value})

    async def of_person(self, person: str, review_ids: Collection[str]) -> list[StoredImage]:
        """The images that a person uploaded, and those of these reviews, by id, with stand-ins for damaged fields."""
        theirs = {"$or": [{"uploader": person}, {"reviewId": {"$in": list(review_ids)}}]}
        found = self._images.find(theirs).sort("_id")
        return [read_for_display(IMAGE, _image, document) async for document in found]

    async def review_of(self, id: str, session: Session) -> str | None:
        """The id of the review that has an image, also a damaged one; None if no review has it."""
        document: Document = await self._images.find_one({"_id": id}, {"reviewId": 1}, session=session) or {}
        return document.get("reviewId")


def _has_text_id(document: Document) -> bool:
    """False for an image that somebody inserted with another id."""
    return not is_field_damaged(IMAGE, document, "_id")


def _document(image: StoredImage) -> Document:
    fields: dict[str, Any] = {
        "uploader": image.uploader,
        "reviewId": image.review_id,
        "width": image.width,
        "height": image.height,
        "refusal": image.refusal and image.refusal.value,
        "digest": image.digest,
        "seen": seen_document(image.seen),
        "unusedSince": None if image.review_id else image.at,
    }
    required = {"_id": image.id, "state": image.state.value, "at": image.at}
    return required | {name: value for name, value in fields.items() if value}


def _image(document: Document) -> StoredImage:
    refusal = document.get("refusal")
    return StoredImage(
        document["_id"],
        ImageState(document["state"]),
        document.get("at") or document["goneAt"],
        uploader=document.get("uploader"),
        review_id=document.get("reviewId"),
        width=document.get("width", 0),
        height=document.get("height", 0),
        refusal=UploadRefusal(refusal) if refusal else None,
        digest=document.get("digest"),
        seen=seen_from(document.get("seen")),
    )
