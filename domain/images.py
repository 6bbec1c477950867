"""Images of reviews: uploaded separately, rebuilt, then claimed by one review each."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Final, NamedTuple

from domain.commands import KEY_REUSED, Outcome
from domain.delivery import Seen
from domain.reviews_facts import ReviewImage, Source
from domain.reviews_refusals import Refusal

MAX_UPLOAD_BYTES: Final = 10 * 1024 * 1024
MAX_PIXELS: Final = 25_000_000
MAX_IMAGES: Final = 5
"""Maximum number of images of a review."""

SIZES: Final = (1_600, 320)
"""Longest side in pixels of each file that is made of an image."""

UNUSED_FOR: Final = timedelta(hours=24)
"""Time after which an image that no review has is removed, and a refused one, too."""

_UNAVAILABLE: Final = frozenset({Refusal.UNKNOWN_IMAGE, Refusal.REFUSED_IMAGE})
_DROPPABLE: Final[Mapping[Source | None, Collection[Refusal]]] = {
    Source.IMPORT: _UNAVAILABLE | {Refusal.IMAGE_OF_ANOTHER},
    **dict.fromkeys((Source.API, Source.WIDGET, Source.REMINDER), _UNAVAILABLE),
}
"""Objections that cost a new review the image instead of refusing the review, by the review's source; else none."""

_DIGEST_BYTES: Final = 16
_HEIC: Final = (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftypheim", b"ftypheis")


class ImageFormat(StrEnum):
    """An accepted format of uploads."""

    JPEG = "image/jpeg"
    PNG = "image/png"
    WEBP = "image/webp"
    HEIC = "image/heic"


def format_of(head: bytes) -> ImageFormat | None:
    """The format of a file by its first 12 bytes; None for any other format."""
    if head.startswith(b"\xff\xd8\xff"):
        return ImageFormat.JPEG
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return ImageFormat.PNG
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return ImageFormat.WEBP
    return ImageFormat.HEIC if head[4:12] in _HEIC else None


def upload_digest(content: bytes) -> str:
    """The digest of an upload, its name in the image store."""
    return blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


class ImageState(StrEnum):
    """The state of an image.

    Awaited: claimed by a review, but not rebuilt yet. Gone: its files are removed, or will be.
    """

    AWAITED = "awaited"
    READY = "ready"
    REFUSED = "refused"
    GONE = "gone"


class UploadRefusal(StrEnum):
    """The reason why no image is made of an upload."""

    UNREADABLE = "image-unreadable"
    ANIMATED = "image-animated"
    TOO_LARGE = "image-too-large"
    TOO_COSTLY = "image-too-costly"
    LOST = "upload-lost"
    OF_ANOTHER = "image-of-another"


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image as it is stored."""

    id: str
    state: ImageState
    at: datetime
    """Start of this state; if no review has the image, it has been unused since then."""
    uploader: str | None = None
    """The person; None if a shop uploads for its customers."""
    review_id: str | None = None
    width: int = 0
    height: int = 0
    refusal: UploadRefusal | None = None
    digest: str | None = None
    """The digest of the upload that settled it; None if there was none, or 0.1.0 settled it."""
    seen: Seen = field(default_factory=Seen)
    """The applied records of commands that hid or showed it."""

    @property
    def is_settled(self) -> bool:
        """True once its upload needs no more processing."""
        return self.state is not ImageState.AWAITED


class Rebuilt(NamedTuple):
    """A rebuilt image: its upright size in pixels, and a file for each of SIZES."""

    width: int
    height: int
    files: Sequence[bytes]


def is_foreign(uploader: str | None, author: str | None) -> bool:
    """True if uploader and author are both known, and differ."""
    return uploader is not None and author is not None and uploader != author


def settle_upload(
    image: StoredImage | None, upload: StoredImage, result: Rebuilt | UploadRefusal, author: str | None
) -> StoredImage:
    """The image after its upload was processed; the same object if it had been settled already.

    `author` is that of the review that has it. A refused image belongs to no review.
    """
    if image is not None and image.is_settled:
        return image
    review_id = image.review_id if image else None
    upload = replace(upload, seen=image.seen) if image else upload
    if isinstance(result, Rebuilt) and review_id is not None and is_foreign(upload.uploader, author):
        result = UploadRefusal.OF_ANOTHER
    if isinstance(result, UploadRefusal):
        return replace(upload, state=ImageState.REFUSED, refusal=result)
    return replace(upload, state=ImageState.READY, review_id=review_id, width=result.width, height=result.height)


def upload_outcome(image: StoredImage, digest: str) -> tuple[Outcome, str | None]:
    """The outcome of the upload with this digest, and the reason for refusing it, from its image, which is settled. The
    id stands for one file: it is derived from the idempotency key, which may be older than the facade remembers."""
    if image.state is ImageState.GONE:
        return Outcome.NOT_FOUND, None
    if image.digest not in (None, digest):
        return Outcome.REFUSED, KEY_REUSED
    return (Outcome.REFUSED, image.refusal.value) if image.refusal else (Outcome.APPLIED, None)


def images_after_edit(
    ids: Iterable[str], before: Sequence[ReviewImage], ready: Collection[str], at: datetime | None
) -> tuple[ReviewImage, ...]:
    """The images of a review after an edit to these ids, in this order. Images that it had keep their state; new ones
    can be seen from `at` on if they are ready, and are pending otherwise."""
    stored = {image.id: image for image in before}
    new = {id: ReviewImage(id, ready_at=at) if id in ready else ReviewImage(id, is_pending=True) for id in ids}
    return tuple(stored.get(id) or image for id, image in new.items())


def with_pending(ids: Sequence[str], before: Sequence[ReviewImage]) -> tuple[str, ...]:
    """These images of a review, followed by its previous ones that are being rebuilt, at most MAX_IMAGES in total."""
    pending = (image.id for image in before if image.is_pending)
    return tuple(dict.fromkeys((*ids, *pending)))[:MAX_IMAGES]


def images_of_new_review(ids: Iterable[str], hidden: Collection[str]) -> tuple[ReviewImage, ...]:
    """The images of a new review, in this order: all pending until their readiness is known."""
    return tuple(ReviewImage(id, id in hidden, is_pending=True) for id in dict.fromkeys(ids))


def with_readiness(images: Iterable[ReviewImage], ready: Collection[str]) -> tuple[ReviewImage, ...]:
    """The images, each pending unless it is ready."""
    return tuple(each._replace(is_pending=each.id not in ready) for each in images)


def with_visibility(images: Sequence[ReviewImage], id: str, *, hidden: bool) -> tuple[ReviewImage, ...]:
    """The images with this one hidden or shown by a moderator, who has seen it."""
    return tuple(each._replace(is_hidden=hidden, is_unseen=False) if each.id == id else each for each in images)


def with_unseen_hidden(images: Sequence[ReviewImage], at: datetime) -> tuple[ReviewImage, ...]:
    """The images of a review that a moderator approved at that moment: those that couldn't be seen by then are hidden
    until a command shows them."""
    return tuple(each if each.is_seen(at) else _hidden_unseen(each) for each in images)


def with_new_hidden(images: Sequence[ReviewImage], before: Sequence[ReviewImage]) -> tuple[ReviewImage, ...]:
    """The images with those hidden that the review didn't have before: no moderator has seen them."""
    had = {image.id for image in before}
    return tuple(each if each.id in had else _hidden_unseen(each) for each in images)


def _hidden_unseen(image: ReviewImage) -> ReviewImage:
    return image if image.is_hidden else image._replace(is_hidden=True, is_unseen=True)


def with_settled(images: Sequence[ReviewImage], id: str, ready_at: datetime | None) -> tuple[ReviewImage, ...]:
    """The images with this one ready since `ready_at`; None removes it."""
    kept = (each for each in images if each.id != id or ready_at)
    return tuple(each._replace(is_pending=False, ready_at=ready_at) if each.id == id else each for each in kept)


def stands_without_unknown(source: Source | None) -> bool:
    """True if a new review from this source is stored without its unknown images."""
    return Refusal.UNKNOWN_IMAGE in _DROPPABLE.get(source, ())


class ClaimableImages(NamedTuple):
    """The images that reviews may claim, one review after the other."""

    stored: Mapping[str, StoredImage]
    """Known images by id."""
    uploaded: Collection[str]
    """Ids of others whose files exist, though they haven't been rebuilt yet."""
    at: datetime

    def objection(self, id: str, review_id: str, author: str | None) -> Refusal | None:
        """The reason against an image in a review by this author; None if the review may have it."""
        image = self.stored.get(id)
        if image is None:
            return None if id in self.uploaded else Refusal.UNKNOWN_IMAGE
        match image.state:
            case ImageState.GONE:
                return Refusal.UNKNOWN_IMAGE
            case ImageState.REFUSED:
                return Refusal.REFUSED_IMAGE
        if image.review_id not in (None, review_id) or is_foreign(image.uploader, author):
            return Refusal.IMAGE_OF_ANOTHER
        return None

    def refusal(self, ids: Iterable[str], review_id: str, author: str | None) -> Refusal | None:
        """The first reason against one of these images in a review by this author."""
        return next(filter(None, (self.objection(id, review_id, author) for id in ids)), None)

    def without_lost(
        self, ids: Iterable[str], review_id: str, author: str | None, source: Source | None
    ) -> tuple[str, ...]:
        """The images of a new review without those that it can do without; an objection to any other refuses it.

        An imported review drops every image that it can't have, since nobody can be asked. A review that the facade has
        acknowledged drops images that have been refused or removed since. One from an upstream system drops none.
        """
        droppable = _DROPPABLE.get(source, ())
        return tuple(id for id in ids if self.objection(id, review_id, author) not in droppable)

    def claimed(self, ids: Iterable[str], review_id: str) -> "ClaimableImages":
        """The images after a review has claimed some of them."""
        named = {id: self.stored.get(id) or StoredImage(id, ImageState.AWAITED, self.at) for id in ids}
        claimed = {id: replace(image, review_id=review_id) for id, image in named.items()}
        return self._replace(stored={**self.stored, **claimed})

    def dropped(self, ids: Iterable[str]) -> "ClaimableImages":
        """The images after their review has dropped some of them: these are gone."""
        gone = {id: StoredImage(id, ImageState.GONE, self.at) for id in ids}
        return self._replace(stored={**self.stored, **gone})


def may_come(image: StoredImage | None) -> bool:
    """True if a review may yet get an image that it doesn't have: the image is unknown so far, or unclaimed."""
    is_free = image is not None and image.review_id is None
    return image is None or (is_free and image.state in (ImageState.AWAITED, ImageState.READY))


def ready_among(stored: Mapping[str, StoredImage]) -> set[str]:
    """The ids of the images that are ready."""
    return {id for id, image in stored.items() if image.state is ImageState.READY}
