"""Files that take their name once they are whole: until then they are drafts, for their owner alone."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from devservers.private import private
from plaudit.cli.command_line import CommandError, UsageError


def draft_of(file: Path) -> Path:
    """The draft of a file."""
    return file.with_name(file.name + ".draft")


@contextmanager
def locked_draft(file: Path) -> Iterator[BinaryIO]:
    """The empty draft of a file, which one run has at a time. Raises CommandError while another one has it."""
    while True:
        with open(draft_of(file), "ab", opener=private) as draft:
            try:
                fcntl.flock(draft, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CommandError(f"Another run is writing {file}.") from None
            # Another run may have given it its name, or removed it, before the lock was ours.
            if not _is_there(draft, draft_of(file)):
                continue
            os.fchmod(draft.fileno(), 0o600)  # a killed run of an earlier version may have left it open to others
            draft.truncate(0)
            yield draft
            return


def put_on_disk(file: BinaryIO) -> None:
    """Have all that was written so far on the disk; raises OSError where that is full."""
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def whole_file(file: Path, then: Callable[[], None] | None = None) -> Iterator[BinaryIO]:
    """The draft of a file, which stands in its place after the block; after an error the file is as it was.

    A link leads to its file, and stays. `then` is called once the file stands there, before another run may write it.
    Raises UsageError for what is there and is no regular file: a device or a pipe that it would take the place of.
    """
    if file.exists() and not file.is_file():
        raise UsageError(f"{file} is no regular file, and would be replaced: write to standard output instead.")
    # Not before: what a pipe's name in /proc leads to is no file that exists.
    file = file.resolve()
    with locked_draft(file) as draft:
        try:
            yield draft
            put_on_disk(draft)
            draft_of(file).replace(file)
            if then:
                then()
        except BaseException:
            draft_of(file).unlink(missing_ok=True)
            raise


def _is_there(opened: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(opened.fileno()), path.stat())
    except FileNotFoundError:
        return False
