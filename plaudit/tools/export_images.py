"""The images of an export: their files, and their entries in its rows."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from domain.delivery import in_parts
from domain.images import SIZES, ImageState, StoredImage
from domain.reviews import Review
from domain.reviews_facts import ReviewImage
from plaudit.errors import naming
from plaudit.processes.waiting import patiently
from plaudit.tools.image_folder import image_file
from storage.database import Database
from storage.images.files import ImageFiles
from storage.images.repository import ImageRepository

_CONCURRENCY: Final = 8


ImageEntry = dict[str, str | bool | None]
"""An image of a review: `id` and `hidden`; with a file in the folder also its `sha256`, and `uploader`, the id of a
person, null if unknown."""


class ImageExport:
    """Writes the files of images into a folder. Memory holds a few of them.

    `open_files` opens the store for the first image. `count` images were written, `lost` have no file in the store.
    """

    def __init__(self, database: Database, open_files: Callable[[], ImageFiles], folder: Path) -> None:
        self._images = ImageRepository(database)
        self._open_files = open_files
        self._files: ImageFiles | None = None
        self._folder = folder
        self.count = 0
        self.lost = 0

    async def of(self, reviews: Collection[Review]) -> dict[str, list[ImageEntry]]:
        """Write the image files of these reviews; returns the entries of their images by review id.

        Images that no longer belong to their review are left out.
        """
        wanted = [(review, image) for review in reviews for image in review.images if not image.is_pending]
        entries: dict[str, list[ImageEntry]] = {}
        for batch in in_parts(wanted, _CONCURRENCY):
            stored = await self._load([image.id for _, image in batch])
            written = await asyncio.gather(
                *(self._write(review, image, stored.get(image.id)) for review, image in batch)
            )
            for (review, _), entry in zip(batch, written, strict=True):
                entries.setdefault(review.id, []).extend([entry] if entry else [])
        return entries

    async def _load(self, ids: Sequence[str]) -> dict[str, StoredImage]:
        return await patiently("MongoDB", partial(self._images.of_ids, ids))

    async def _write(self, review: Review, image: ReviewImage, stored: StoredImage | None) -> ImageEntry | None:
        if not _is_of(stored, review):
            return None
        if self._files is None:
            self._files = self._open_files()
            self._folder.mkdir(mode=0o700)
        content = await patiently("the image store", partial(self._files.get, image.id, SIZES[0]))
        entry: ImageEntry = {"id": image.id, "hidden": image.is_hidden}
        if content is None:
            stored = (await self._load([image.id])).get(image.id)
            if not _is_of(stored, review):
                return None
            self.lost += 1
            return entry
        file = image_file(self._folder, image.id)
        with naming(file):
            file.write_bytes(content)
        self.count += 1
        return entry | {"uploader": stored.uploader if stored else None, "sha256": sha256(content).hexdigest()}


def _is_of(image: StoredImage | None, review: Review) -> bool:
    return image is not None and image.state is ImageState.READY and image.review_id == review.id
