"""The check of the store of images."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

from obstore.exceptions import BaseError

from domain.findings import Finding, failed, ok
from plaudit.config import Settings
from plaudit.credentials import without_credentials

_CHECK = "images"
_ADVICE = "Correct PLAUDIT_IMAGES__STORE, the rights to it, or AWS_*: uploads are answered 503 until then."


async def check_images(settings: Settings) -> AsyncIterator[Finding]:
    """Write, find, read and remove a file as uploads are. A folder that isn't there yet is left to the processes, whose
    it is to be; only the place for it is looked at."""
    address = settings.images.address(settings.data)
    try:
        finding = _missing(address)
        if finding is None:
            await settings.images.files(settings.data).probe()
    except (BaseError, OSError, ValueError) as error:
        finding = failed(_CHECK, f"{without_credentials(address)} can't be used: {_first_line(error)}", _ADVICE)
    yield finding or ok(_CHECK, f"{without_credentials(address)} takes files")


def _missing(address: str) -> Finding | None:
    """The finding about a folder that isn't there; None for any other store."""
    folder = Path(address).absolute()
    if "://" in address or _is_there(folder):
        return None
    above = next(each for each in folder.parents if _is_there(each))
    if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
        return ok(_CHECK, f"{folder} will be made by the processes")
    return failed(_CHECK, f"{folder} is missing, and can't be made in {above}", _ADVICE)


def _is_there(folder: Path) -> bool:
    # What is below a folder of somebody else's isn't there for us; `Path.exists` raises then.
    return os.access(folder, os.F_OK)


def _first_line(error: BaseException) -> str:
    text = without_credentials(str(error)).strip().partition("\n")[0]
    return text[:200] or type(error).__name__
