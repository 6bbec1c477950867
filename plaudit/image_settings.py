"""The setting of the store of images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from storage.images_files import ImageFiles, open_store


class ImageSettings(BaseModel):
    """The store of images: API and workers use the same one."""

    store: Annotated[
        str | None,
        Field(description="A folder, or `s3://bucket/prefix` with `AWS_*` beside it; missing: `images` in the data"),
    ] = None

    def address(self, data: Path) -> str:
        """The address of the store; `data` is the data folder."""
        return self.store or str(data / "images")

    def files(self, data: Path) -> ImageFiles:
        """The files of images; `data` is the data folder. Raises OSError or ValueError where they can't be kept so."""
        if self.store is None:
            # As `plaudit up` has it, for its owner alone.
            data.mkdir(mode=0o700, parents=True, exist_ok=True)
        return ImageFiles(open_store(self.address(data)))
