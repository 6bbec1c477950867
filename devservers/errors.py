"""The errors of this package, and the type of its progress callback."""

from collections.abc import Callable
from pathlib import Path

Report = Callable[[str], None]
"""Called with one line about work that takes a while, or about a choice that the user should know about."""


class EmbeddedServerError(Exception):
    """An embedded server can't run here; the message says what to do about it."""


class WrongFolderError(EmbeddedServerError):
    """Data can't be kept in the configured folder."""


class MissingPartError(EmbeddedServerError):
    """Something that the server needs isn't installed."""


def unwritable(folder: Path, error: OSError) -> EmbeddedServerError:
    """The error of a folder in which nothing can be written."""
    return EmbeddedServerError(
        f"{folder} is not writable ({error.strerror}). Make it writable, or choose another folder."
    )
