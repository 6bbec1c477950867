"""The folder of images beside an export, which `plaudit import` reads."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from messaging.schemas import IMAGE_ID_PATTERN
from plaudit.errors import UsageError

_SUFFIX: Final = ".jpg"
_NAME: Final = re.compile(IMAGE_ID_PATTERN.rstrip("$") + re.escape(_SUFFIX))


def images_beside(file: Path) -> Path:
    """The folder of the images of an export: beside the file itself, after resolving symbolic links."""
    file = file.resolve()
    return file.with_name(file.name + ".images")


def image_file(folder: Path, id: str) -> Path:
    """The file of an image in the folder."""
    return folder / f"{id}{_SUFFIX}"


def folder_before(folder: Path) -> Path:
    """The path of the previous folder until the new export's file has its name: it has the images of the old file."""
    return folder.with_name(folder.name + ".old")


def remove_folder_before(folder: Path) -> None:
    """Remove the previous folder."""
    _remove(folder_before(folder))


@contextmanager
def image_folder(folder: Path) -> Iterator[Path]:
    """A draft that replaces the folder after the block; after an error the folder is unchanged.

    Without any image there is no folder afterwards. The previous one is kept for `remove_folder_before`.

    Raises UsageError: the folder holds anything but images, or the path is a link or a file.
    """
    draft, old = folder.with_name(folder.name + ".draft"), folder_before(folder)
    for each in (folder, draft, old):
        _check_replaceable(each)
    _remove(draft)
    try:
        yield draft
        if folder.exists() and old.exists():
            # The file may still be that of before the last run, which was killed, and may have images in either.
            for each in folder.iterdir():
                each.replace(old / each.name)
            folder.rmdir()
        elif folder.exists():
            folder.rename(old)
        if draft.exists():
            os.sync()  # the folder to be removed next may hold the only other copies
            draft.rename(folder)
    finally:
        _remove(draft)


def _check_replaceable(folder: Path) -> None:
    if folder.is_symlink():
        raise UsageError(
            f"{folder} is a symbolic link, which the folder of images would replace: remove it, or "
            "export with --no-images."
        )
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is not a folder, but the images are written there: move it, or export with --no-images."
        )
    for each in folder.iterdir():
        if not _NAME.fullmatch(each.name):
            raise UsageError(
                f"{folder} would be replaced, but contains {each.name}: move it, or export with --no-images."
            )


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
