"""The folder of images beside an export, which `plaudit import` reads."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from messaging.schemas import IMAGE_ID_PATTERN
from plaudit.cli.command_line import UsageError

_SUFFIX: Final = ".jpg"
_NAME: Final = re.compile(IMAGE_ID_PATTERN.rstrip("$") + re.escape(_SUFFIX))


def images_beside(file: Path) -> Path:
    """The folder of the images of an export: beside the file itself, by whatever links that is named."""
    file = file.resolve()
    return file.with_name(file.name + ".images")


def image_file(folder: Path, id: str) -> Path:
    """The file of an image in that folder."""
    return folder / f"{id}{_SUFFIX}"


def folder_before(folder: Path) -> Path:
    """The place of the folder before, until the file of the new export has its name: it is that of the old file."""
    return folder.with_name(folder.name + ".old")


def remove_folder_before(folder: Path) -> None:
    """Remove the folder before."""
    _remove(folder_before(folder))


@contextmanager
def image_folder(folder: Path) -> Iterator[Path]:
    """A draft of the folder, in whose place it stands after the block; after an error the folder is as it was.

    Without any image there is no folder afterwards. The one before is kept for `remove_folder_before`. Raises
    UsageError for a folder that holds anything else.
    """
    draft, old = folder.with_name(folder.name + ".draft"), folder_before(folder)
    for each in (folder, draft, old):
        _check_ours(each)
    _remove(draft)
    try:
        yield draft
        if folder.exists():
            _remove(old)
            folder.rename(old)
        if draft.exists():
            os.sync()  # what is removed next may be all that there is of them
            draft.rename(folder)
    finally:
        _remove(draft)


def _check_ours(folder: Path) -> None:
    if folder.is_symlink():
        raise UsageError(f"{folder} is a link, whose place a folder would take: remove it, or export with --no-images.")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"{folder} is in the way of the folder of images: move it, or export with --no-images.")
    for each in folder.iterdir():
        if not _NAME.fullmatch(each.name):
            raise UsageError(f"{folder} would be replaced, but holds {each.name}: move it, or export with --no-images.")


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
