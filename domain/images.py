"""Images of reviews: uploaded by themselves, rebuilt, then claimed by one review each."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Final, NamedTuple

from domain.delivery import Seen
from domain.reviews_facts import ReviewImage, Source
from domain.stores import Refusal

MAX_UPLOAD_BYTES: Final = 10 * 1024 * 1024
MAX_PIXELS: Final = 25_000_000
MAX_IMAGES: Final = 5
"""Of one review."""

SIZES: Final = (1_600, 320)
"""The longest side of each size that is made, in pixels."""

UNUSED_FOR: Final = timedelta(hours=24)
"""An image that no review has goes after this time, and so does one that was refused."""

_LOST_SINCE: Final = frozenset({Refusal.UNKNOWN_IMAGE, Refusal.REFUSED_IMAGE})
_LOST: Final[Mapping[Source | None, Collection[Refusal]]] = {
    Source.IMPORT: _LOST_SINCE | {Refusal.IMAGE_OF_ANOTHER},
    **dict.fromkeys((Source.API, Source.WIDGET, Source.REMINDER), _LOST_SINCE),
}
"""The objections to an image without which a review stands, by the way on which it came; none for others."""

_DIGEST_BYTES: Final = 16
_HEIC: Final = (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftypheim", b"ftypheis")


class ImageFormat(StrEnum):
    """A format that is taken."""

    JPEG = "image/jpeg"
    PNG = "image/png"
    WEBP = "image/webp"
    HEIC = "image/heic"


def format_of(head: bytes) -> ImageFormat | None:
    """The format that a file begins like; None for any other. Its first 12 bytes tell."""
    if head.startswith(b"\xff\xd8\xff"):
        return ImageFormat.JPEG
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return ImageFormat.PNG
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return ImageFormat.WEBP
    return ImageFormat.HEIC if head[4:12] in _HEIC else None


def digest_of(content: bytes) -> str:
    """The digest of an upload, which is its name in the store of images."""
    return blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


class ImageState(StrEnum):
    """The state of an image.

    Awaited: a review has claimed it, and it has not been rebuilt yet. Gone: its files are removed, or will be.
    """

    AWAITED = "awaited"
    READY = "ready"
    REFUSED = "refused"
    GONE = "gone"


class UploadRefusal(StrEnum):
    """The reason for which no image is made of an upload."""

    UNREADABLE = "image-unreadable"
    ANIMATED = "image-animated"
    TOO_LARGE = "image-too-large"
    TOO_COSTLY = "image-too-costly"
    LOST = "upload-lost"
    OF_ANOTHER = "image-of-another"


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image as it is stored. `at`: since when, and so, where no review has it, since when it is unused. `uploader`:
    the person, None where a shop uploads for its customers.

    `seen`: the records of commands that hid or showed it.
    """

    id: str
    state: ImageState
    at: datetime
    uploader: str | None = None
    review_id: str | None = None
    width: int = 0
    height: int = 0
    refusal: UploadRefusal | None = None
    seen: Seen = field(default_factory=Seen)

    @property
    def is_settled(self) -> bool:
        """True once nothing is to be made of its upload any more."""
        return self.state is not ImageState.AWAITED


class Rebuilt(NamedTuple):
    """An image that was rebuilt: its size, upright, and a file for each of SIZES."""

    width: int
    height: int
    files: Sequence[bytes]


def objection(
    image: StoredImage | None, review_id: str, author: str | None, *, is_uploaded: bool = False
) -> Refusal | None:
    """The reason against an image in a review by this author, None if the review may have it.

    `is_uploaded`: its file is known to be there, though nothing has been made of it yet.
    """
    if image is None:
        return None if is_uploaded else Refusal.UNKNOWN_IMAGE
    match image.state:
        case ImageState.GONE:
            return Refusal.UNKNOWN_IMAGE
        case ImageState.REFUSED:
            return Refusal.REFUSED_IMAGE
    if image.review_id not in (None, review_id) or is_foreign(image.uploader, author):
        return Refusal.IMAGE_OF_ANOTHER
    return None


def is_foreign(uploader: str | None, author: str | None) -> bool:
    """True if both are known, and differ."""
    return uploader is not None and author is not None and uploader != author


def settled(
    image: StoredImage | None, upload: StoredImage, result: Rebuilt | UploadRefusal, author: str | None
) -> StoredImage:
    """The image after its upload; the same object where that was settled before. `author`: of the review that has it.

    One that was refused belongs to no review.
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


def chosen(
    ids: Iterable[str], before: Sequence[ReviewImage], ready: Collection[str], at: datetime | None
) -> tuple[ReviewImage, ...]:
    """The images of a review that gets these at a moment, in this order: hidden ones stay hidden, and nobody has seen
    the others with it before."""
    stored = {image.id: image for image in before}
    new = {id: ReviewImage(id, ready_at=at) if id in ready else ReviewImage(id, is_pending=True) for id in ids}
    return tuple(stored.get(id) or image for id, image in new.items())


def with_pending(ids: Sequence[str], before: Sequence[ReviewImage]) -> tuple[str, ...]:
    """These images of a review, and behind them those of before that are being rebuilt, as many as it may have."""
    pending = (image.id for image in before if image.is_pending)
    return tuple(dict.fromkeys((*ids, *pending)))[:MAX_IMAGES]


def first(ids: Iterable[str], hidden: Collection[str]) -> tuple[ReviewImage, ...]:
    """The images of a new review, in this order, until it is known which are ready."""
    return tuple(ReviewImage(id, id in hidden, is_pending=True) for id in dict.fromkeys(ids))


def with_readiness(images: Iterable[ReviewImage], ready: Collection[str]) -> tuple[ReviewImage, ...]:
    """The images, those pending that can't be shown yet."""
    return tuple(each._replace(is_pending=each.id not in ready) for each in images)


def with_visibility(images: Sequence[ReviewImage], id: str, *, hidden: bool) -> tuple[ReviewImage, ...]:
    """The images with this one hidden, or shown."""
    return tuple(each._replace(is_hidden=hidden) if each.id == id else each for each in images)


def with_unseen_hidden(images: Sequence[ReviewImage], at: datetime) -> tuple[ReviewImage, ...]:
    """The images of a review that somebody approved at that moment: those that nobody could see by then are hidden,
    until they are shown."""
    return tuple(each if each.is_seen(at) else each._replace(is_hidden=True) for each in images)


def with_settled(images: Sequence[ReviewImage], id: str, ready_at: datetime | None) -> tuple[ReviewImage, ...]:
    """The images once this one is ready; None: without it."""
    kept = (each for each in images if each.id != id or ready_at)
    return tuple(each._replace(is_pending=False, ready_at=ready_at) if each.id == id else each for each in kept)


def holders_after(
    stored: Mapping[str, StoredImage],
    uploaded: Collection[str],
    ids: Collection[str],
    review_id: str,
    author: str | None,
) -> dict[str, str] | Refusal:
    """The images that a review by this author gets by naming these ids, each with its id; or the reason against it.

    `stored` are those that are known, `uploaded` the ids of others whose files are there.
    """
    for id in ids:
        if reason := objection(stored.get(id), review_id, author, is_uploaded=id in uploaded):
            return reason
    return dict.fromkeys(ids, review_id)


def without_lost(
    stored: Mapping[str, StoredImage],
    uploaded: Collection[str],
    ids: Iterable[str],
    review_id: str,
    author: str | None,
    source: Source | None,
) -> tuple[str, ...]:
    """These images of a new review without those that it stands without; an objection to one of the others refuses it.

    An import stands without all that it can't have, for nobody is there to ask. What the facade has acknowledged stands
    without those that are refused or gone since. What an upstream system sends is taken as it is, or not at all.
    """
    lost = _LOST.get(source, ())
    return tuple(
        id for id in ids if objection(stored.get(id), review_id, author, is_uploaded=id in uploaded) not in lost
    )


def stands_without_unknown(source: Source | None) -> bool:
    """True if a new review that came so stands without an image that is unknown."""
    return Refusal.UNKNOWN_IMAGE in _LOST.get(source, ())


def held(stored: Mapping[str, StoredImage], holders: Mapping[str, str], at: datetime) -> dict[str, StoredImage]:
    """The images once reviews have got some of them, by id."""
    return {**stored, **{id: _held(stored.get(id), id, review_id, at) for id, review_id in holders.items()}}


def _held(image: StoredImage | None, id: str, review_id: str, at: datetime) -> StoredImage:
    return replace(image or StoredImage(id, ImageState.AWAITED, at), review_id=review_id)


def may_come(image: StoredImage | None) -> bool:
    """True if a review may yet get an image that it doesn't have: it is unknown so far, or nobody's."""
    is_free = image is not None and image.review_id is None
    return image is None or (is_free and image.state in (ImageState.AWAITED, ImageState.READY))


def ready_among(stored: Mapping[str, StoredImage]) -> set[str]:
    """The ids of those that can be shown."""
    return {id for id, image in stored.items() if image.state is ImageState.READY}
