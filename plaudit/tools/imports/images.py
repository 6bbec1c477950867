"""The images of an export: read from the folder beside it, compared with their rows, and uploaded."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import FailFast, Field, StringConstraints, TypeAdapter, ValidationError

from domain.delivery import in_parts
from domain.images import MAX_IMAGES, MAX_UPLOAD_BYTES, upload_digest
from messaging.schemas import ClosedMessage, Id, ImageId
from plaudit.config import Settings
from plaudit.credentials import without_credentials
from plaudit.errors import CommandError
from plaudit.processes.connections import opened_images
from plaudit.processes.waiting import patiently
from plaudit.tools.image_folder import folder_before, image_file
from plaudit.tools.imports.bad_rows import BadRowError, faults_of
from storage.images.files import ImageFiles
from storage.images.mark import ADVICE, WHY_ANOTHER, ImageStoreMark

_CONCURRENCY: Final = 8
"""Maximum number of concurrent uploads to the image store."""


class PastImage(ClosedMessage):
    """An image of a review; without `sha256` it was exported without its file."""

    id: ImageId
    hidden: bool = False
    uploader: Id | None = None
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None


_IMAGES: Final = TypeAdapter(Annotated[tuple[PastImage, ...], Field(max_length=MAX_IMAGES), FailFast()])


@dataclass(frozen=True, slots=True)
class FoundImage:
    """An image and the content of its file."""

    entry: PastImage
    content: bytes

    def upload(self) -> dict[str, Any]:
        """The message that announces the stored file; workers rebuild it like any other upload."""
        uploader = {"uploader": self.entry.uploader} if self.entry.uploader else {}
        return {"id": self.entry.id, "digest": upload_digest(self.content), "exported": True, **uploader}


def count_without_files(columns: Mapping[str, Any]) -> int:
    """The number of images in a row of our own export that were exported without their files. Raises BadRowError."""
    return sum(image.sha256 is None for image in _entries(columns))


def images_in(columns: Mapping[str, Any], folder: Path) -> list[FoundImage]:
    """The images in a row of our own export, from the folder, except those that were exported without their files.

    Raises BadRowError: an image isn't valid, can't be read, or isn't the one that was exported.
    """
    return [FoundImage(image, _content(folder, image)) for image in _entries(columns) if image.sha256]


def _content(folder: Path, image: PastImage) -> bytes:
    path = image_file(folder, image.id)
    if not path.exists() and (before := image_file(folder_before(folder), image.id)).exists():
        path = before  # a later export was killed before it replaced the file
    if path.is_symlink() or not path.is_file():
        raise BadRowError(f"/images: There is no file {path.name} in {folder}")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_UPLOAD_BYTES + 1)
    except OSError as error:
        raise BadRowError(f"/images: {path.name} can't be read: {error.strerror}") from None
    if len(content) > MAX_UPLOAD_BYTES:
        raise BadRowError(f"/images: {path.name} has more than {MAX_UPLOAD_BYTES} bytes")
    if sha256(content).hexdigest() != image.sha256:
        raise BadRowError(f"/images: {path.name} is not the exported file: its SHA-256 differs")
    return content


def _entries(columns: Mapping[str, Any]) -> tuple[PastImage, ...]:
    given = columns.get("images")
    try:
        return () if given is None else _IMAGES.validate_python(given, strict=False)
    except ValidationError as error:
        raise BadRowError(f"/images: {faults_of(error)}") from None


class Uploader:
    """Uploads images to the store that API and workers share, which is opened for the first image, and checked for each
    batch."""

    def __init__(self, settings: Settings, mark: ImageStoreMark) -> None:
        self._settings = settings
        self._mark = mark
        self._files: ImageFiles | None = None

    async def upload(self, images: Sequence[FoundImage]) -> None:
        """Upload images; returns once all are stored. Raises what `opened_images` does, and CommandError if the store
        isn't the one used before."""
        if not images:
            return
        files = await self._checked_store()
        for batch in in_parts(images, _CONCURRENCY):
            puts = [
                partial(files.put_upload, image.entry.id, upload_digest(image.content), image.content)
                for image in batch
            ]
            await asyncio.gather(*(patiently("the image store", put) for put in puts))

    async def _checked_store(self) -> ImageFiles:
        self._files = files = self._files or opened_images(self._settings)
        if await patiently("the image store", partial(self._mark.is_missing_in, files)):
            address = without_credentials(self._settings.images.address(self._settings.data))
            raise CommandError(f"{address} {WHY_ANOTHER}. {ADVICE}")
        return files
