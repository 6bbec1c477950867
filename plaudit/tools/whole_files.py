"""Files that get their name once complete; until then they are drafts, accessible to their owner only."""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Literal

from devservers.private import private
from plaudit.errors import CommandError, UsageError, naming

_SUFFIX: Final = ".draft"


def draft_of(file: Path) -> Path:
    """The path of a file's draft."""
    return file.with_name(file.name + _SUFFIX)


def check_folder(file: Path) -> None:
    """Raises UsageError: the folder of a file to write doesn't exist."""
    if not file.parent.is_dir():
        raise UsageError(f"{file.parent} is not a folder: create it, or choose another one.")


def open_draft(draft: Path, mode: Literal["ab", "wb"]) -> BinaryIO:
    """Open a draft for its owner alone. Raises UsageError: it is a symbolic link, a pipe or a device."""
    return open(draft, mode, opener=_regular)


def _regular(path: str, flags: int) -> int:
    try:
        # A pipe without a reader would be waited for.
        opened = private(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UsageError(f"{path} is a symbolic link, which is not followed: remove it first.") from None
        if error.errno == errno.ENXIO:
            raise _not_regular(path) from None
        if not os.path.lexists(path):
            error.filename = path.removesuffix(_SUFFIX)  # the name that was given
        raise
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise _not_regular(path)
    return opened


def _not_regular(path: str) -> UsageError:
    return UsageError(f"{path} is not a regular file: remove it first.")


@contextmanager
def locked_draft(file: Path) -> Iterator[BinaryIO]:
    """The empty draft of a file, locked against other runs.

    Raises CommandError: another run has the lock, or the file system has none. Raises UsageError as `open_draft` does.
    """
    while True:
        with open_draft(draft_of(file), "ab") as draft:
            try:
                fcntl.flock(draft, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CommandError(f"Another run is writing {file}.") from None
            except OSError as error:
                if not os.fstat(draft.fileno()).st_size:
                    draft_of(file).unlink(missing_ok=True)
                raise CommandError(
                    f"{file} can't be locked ({error.strerror}), as on NFS: choose another folder."
                ) from None
            # Before this run got the lock, another one may have renamed the draft or removed it.
            if not _is_same_file(draft, draft_of(file)):
                continue
            os.fchmod(draft.fileno(), 0o600)  # a killed run of an earlier version may have left it accessible to others
            draft.truncate(0)
            yield draft
            return


def put_on_disk(file: BinaryIO) -> None:
    """Flush and fsync everything written so far. Raises OSError: the disk is full, for example."""
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def whole_file(file: Path, then: Callable[[], None] | None = None) -> Iterator[BinaryIO]:
    """A draft that replaces the file after the block; after an error the file is unchanged.

    A symbolic link is followed, and stays. `then` is called once the file is replaced, before another run may write it.
    Raises UsageError: the path is a device, a pipe or a folder, which would be replaced, or in a missing folder. Raises
    as `locked_draft` does.
    """
    if file.exists() and not file.is_file():
        raise UsageError(f"{file} is not a regular file, and would be replaced: write to standard output instead.")
    # Not earlier: a pipe's name in /proc resolves to a path that doesn't exist.
    file = file.resolve()
    check_folder(file)
    with naming(file), locked_draft(file) as draft:
        try:
            yield draft
            put_on_disk(draft)
            draft_of(file).replace(file)
            if then:
                then()
        except BaseException:
            draft_of(file).unlink(missing_ok=True)
            raise


def _is_same_file(opened: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(opened.fileno()), path.stat())
    except FileNotFoundError:
        return False
