"""Errors that end a command, and errors as one line."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from messaging.server_errors import first_line
from plaudit.credentials import without_credentials

NO_SPACE: Final = frozenset((errno.ENOSPC, errno.EDQUOT))
"""Errors of a write to a disk that is full, or beyond the quota of its user."""

_OF_WRITES: Final = NO_SPACE | {errno.EFBIG, errno.EIO}
_LONGEST_ERROR: Final = 200


class CommandError(Exception):
    """A command failed; the message says why."""

    exit_code = 1


class UsageError(CommandError):
    """A command was used wrongly; the message says what to do instead."""

    exit_code = 2


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Name the file in errors of writes to it: the system names only files that can't be opened."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _OF_WRITES:
            error.filename = str(file)
        raise


def short(error: BaseException) -> str:
    """The first line of an error, cut, without credentials and without PyMongo's details of timeouts and servers."""
    return without_credentials(first_line(error))[:_LONGEST_ERROR].rstrip(".") or type(error).__name__
