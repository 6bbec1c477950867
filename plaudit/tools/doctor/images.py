"""The check of the image store."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

from obstore.exceptions import BaseError

from domain.findings import Finding, Level, failed, ok
from plaudit.config import Settings
from plaudit.credentials import without_credentials
from plaudit.errors import short
from plaudit.tools.servers import answer_of
from storage.images.files import ImageFiles, files_in_memory
from storage.images.mark import ADVICE, WHY_ANOTHER, ImageStoreMark

_CHECK = "images"
_ADVICE = "Correct PLAUDIT_IMAGES__STORE, its permissions, or AWS_*: until then uploads get a 503."


async def check_images(settings: Settings) -> AsyncIterator[Finding]:
    """Write, find, read and remove a file as for uploads, and look for the mark of the store, if it had one.

    A missing folder is left to the processes, which must own it; only its parent is checked.
    """
    address = settings.images.address(settings.data)
    try:
        finding = _missing_folder(address)
        # A missing folder is an empty store.
        files = files_in_memory() if finding else settings.images.files(settings.data)
        await files.probe()
        if finding is None or finding.level is Level.OK:
            finding = await _lost_mark(settings, files) or finding
    except (BaseError, OSError, ValueError) as error:
        finding = failed(_CHECK, f"{without_credentials(address)} can't be used: {short(error)}", _ADVICE)
    yield finding or ok(_CHECK, f"{without_credentials(address)} is writable")


def _missing_folder(address: str) -> Finding | None:
    """The finding about a missing folder; None for any other store."""
    folder = Path(address).absolute()
    if "://" in address or _is_there(folder):
        return None
    above = next(each for each in folder.parents if _is_there(each))
    if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
        return ok(_CHECK, f"{folder} will be created by the processes")
    return failed(_CHECK, f"{folder} is missing, and can't be created in {above}", _ADVICE)


async def _lost_mark(settings: Settings, files: ImageFiles) -> Finding | None:
    """The finding about a store that has lost its mark; None for any other one, or if MongoDB can't be asked."""
    if await answer_of(settings, lambda database: ImageStoreMark(database).is_missing_in(files)):
        address = without_credentials(settings.images.address(settings.data))
        return failed(_CHECK, f"{address} {WHY_ANOTHER}", f"{ADVICE} Work that needs the store waits until then.")
    return None


def _is_there(folder: Path) -> bool:
    # False below a folder that this user may not enter, where `Path.exists` raises.
    return os.access(folder, os.F_OK)
