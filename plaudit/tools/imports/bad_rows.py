"""Rows of an import that aren't valid reviews, and the reasons."""

from typing import Final

from pydantic import ValidationError

from messaging.reading_errors import error_message, pointer

LONGEST_NAME: Final = 200
"""Maximum characters of a name of a file that is shown or kept."""

_MOST_FAULTS: Final = 20


class BadRowError(Exception):
    """A row can't be imported. The message gives the reason, without the content of the row."""


def faults_of(error: ValidationError) -> str:
    """The first validation errors of a row in one line, each with its JSON pointer, and the number of the others."""
    details = error.errors(include_url=False, include_input=False)
    faults = [f"{_place(detail['loc'])}: {error_message(detail)}" for detail in details[:_MOST_FAULTS]]
    more = len(details) - len(faults)
    return "; ".join(faults) + (f"; and {more} more" if more else "")


def cut(name: str) -> str:
    """The name of a field or a column, whose length nothing bounds, in at most `LONGEST_NAME` characters."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _place(location: tuple[int | str, ...]) -> str:
    return pointer([cut(name[:1].lower() + name[1:]) if isinstance(name, str) else name for name in location])
