"""Rows of imports that are no reviews, and the reasons."""

from pydantic import ValidationError

from messaging.reading import error_message, pointer


class BadRowError(Exception):
    """A row is no review; the message says why, without telling what it holds."""


def faults_of(error: ValidationError) -> str:
    """The faults of a row, each with its place."""
    details = error.errors(include_url=False, include_input=False)
    return "; ".join(f"{_place(detail['loc'])}: {error_message(detail)}" for detail in details)


def _place(location: tuple[int | str, ...]) -> str:
    return pointer([name[0].lower() + name[1:] if isinstance(name, str) else name for name in location])
