"""Files and folders for their owner only, and the secrets in them."""

import os
import secrets
import stat
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import BinaryIO

from devservers.errors import Report, WrongFolderError, unwritable

UMASK = 0o077
"""Removes the permissions of group and others from all files that a process creates."""

_SECRET_BYTES = 32
_CHOICE = "Choose a separate folder with PLAUDIT_DATA or `make up DATA=...`."


def private_folder(folder: Path, report: Report | None = None, *, known_by: Sequence[Collection[str]] = ()) -> None:
    """Create a folder for its owner only, or close one that is open to others, and report that.

    With `known_by`, a folder that isn't empty is closed only if it contains all names of one of these sets. Raises
    WrongFolderError if it is for everybody, like /tmp, or has other files; EmbeddedServerError if it can't be created
    or closed, or isn't ours.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = folder.stat().st_mode
        if mode & stat.S_ISVTX:
            raise WrongFolderError(f"{folder} is shared by all users of this machine. {_CHOICE}")
        if mode & UMASK:
            names = {each.name for each in folder.iterdir()}
            if known_by and names and not any(names.issuperset(each) for each in known_by):
                raise WrongFolderError(
                    f"{folder} contains other files, which other users could no longer reach. {_CHOICE}"
                )
            folder.chmod(0o700)
            if report is not None:
                report(f"Removed the access of other users to {folder}; its mode was {stat.S_IMODE(mode):o}")
    except OSError as error:
        raise unwritable(folder, error) from error


def private(path: str, flags: int) -> int:
    """An opener for `open` that creates files for their owner only."""
    return os.open(path, flags, 0o600)


def new_log(file: Path) -> BinaryIO:
    """Open a new log for its owner only; that of the last run is kept as `.1`, in place of the one before."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if file.exists():
        file.replace(file.with_name(f"{file.name}.1"))
    return open(file, "ab", opener=private)


def write_private(file: Path, text: str) -> None:
    """Write a file for its owner only, atomically: it is complete or as before, also if the process is killed."""
    draft = file.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with open(draft, "x", opener=private) as written:
        written.write(text)
    draft.replace(file)


def load_secret(file: Path) -> str:
    """Read the secret in a file, created on first use: 64 hexadecimal digits, readable for its owner only."""
    if not file.exists():
        write_private(file, secrets.token_hex(_SECRET_BYTES))
    file.chmod(0o600)  # it may have been copied; MongoDB refuses a key file that others can read
    return file.read_text().strip()
