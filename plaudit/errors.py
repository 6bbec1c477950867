"""Errors that end a command, and errors as one line."""

from typing import Final

from plaudit.credentials import without_credentials

_LONGEST_ERROR: Final = 200


class CommandError(Exception):
    """A command failed; the message says why."""

    exit_code = 1


class UsageError(CommandError):
    """A command was used wrongly; the message says what to do instead."""

    exit_code = 2


def short(error: BaseException) -> str:
    """The error as one short line, without credentials and without PyMongo's details of timeouts and servers."""
    text = str(error).partition(" (configured timeouts")[0]
    return without_credentials(text)[:_LONGEST_ERROR].rstrip(".") or type(error).__name__
