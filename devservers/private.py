"""Files and folders for their owner alone, and the secrets in them."""

import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

from devservers.errors import EmbeddedServerError, Report

UMASK = 0o077
"""Takes the rights of group and others from whatever a process makes."""

_SECRET_BYTES = 32


def private_folder(folder: Path, report: Report | None = None, *, known_by: str | None = None) -> None:
    """Make a folder for its owner alone, or close one that is open to others, and say so.

    With `known_by`, the name of a file in it, one that holds other files is closed only if it has that one, too.
    Raises EmbeddedServerError where it can't be made or closed, isn't ours, or is meant for everybody, as /tmp is.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = folder.stat().st_mode
        if mode & stat.S_ISVTX:
            raise EmbeddedServerError(f"{folder} is for all users of this machine. Choose a folder of your own.")
        if mode & UMASK:
            if known_by is not None and any(folder.iterdir()) and not (folder / known_by).exists():
                raise EmbeddedServerError(
                    f"{folder} has files of others, who would be locked out. Choose a folder of its own, with "
                    "PLAUDIT_DATA or `make up DATA=...`."
                )
            folder.chmod(0o700)
            if report is not None:
                report(f"Closed {folder} to other users of this machine; its mode was {stat.S_IMODE(mode):o}")
    except OSError as error:
        message = f"{folder} can't be written ({error.strerror}). Make it writable, or choose another folder."
        raise EmbeddedServerError(message) from error


def private(path: str, flags: int) -> int:
    """An opener for `open`: a file that it makes is for its owner alone."""
    return os.open(path, flags, 0o600)


def new_log(file: Path) -> BinaryIO:
    """A log for its owner alone; that of the last run is kept beside it as `.1`, the one before goes."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if file.exists():
        file.replace(file.with_name(f"{file.name}.1"))
    return open(file, "ab", opener=private)


def load_secret(file: Path) -> str:
    """Read the secret in a file, made at the first time: 64 hexadecimal digits, readable for its owner alone."""
    if not file.exists():
        # Whole or not there: a start may be killed at any moment.
        draft = file.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        with open(draft, "x", opener=private) as written:
            written.write(secrets.token_hex(_SECRET_BYTES))
        draft.replace(file)
    file.chmod(0o600)  # copied there, perhaps; MongoDB refuses a key that others can read
    return file.read_text().strip()
