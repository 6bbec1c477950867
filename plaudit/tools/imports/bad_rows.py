"""Rows of an import that aren't valid reviews, and the reasons."""

from pydantic import ValidationError

from messaging.reading import error_message, pointer


class BadRowError(Exception):
    """A row can't be imported. The message gives the reason, without the content of the row."""


def faults_of(error: ValidationError) -> str:
    """The validation errors of a row in one line, each with its JSON pointer."""
    details = error.errors(include_url=False, include_input=False)
    return "; ".join(f"{_place(detail['loc'])}: {error_message(detail)}" for detail in details)


def _place(location: tuple[int | str, ...]) -> str:
    return pointer([name[0].lower() + name[1:] if isinstance(name, str) else name for name in location])
