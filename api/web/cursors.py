"""Cursors: the position at which the next page of a list begins, as a text that clients send back as it is."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final

import orjson

from api.web.problems import ProblemError, invalid
from domain import base64url
from domain.timestamps import from_milliseconds, milliseconds
from storage.keyset import SortValue, is_position

MAX_CURSOR_LENGTH: Final = 65_536
"""Far more than a cursor of the longest texts to sort by has."""

_MOST: Final = 2**53


def cursor(position: Sequence[SortValue], of: object) -> str:
    """The position in the list that `of` describes: JSON, so that the same description gives the same cursor."""
    values = [_mark(of), *(_written(value) for value in position)]
    return base64url.encoded(orjson.dumps(values))


def position_in(text: str, of: object) -> list[SortValue]:
    """The position that a cursor of this list tells. Raises ProblemError for a text that isn't one.

    Nothing keeps a client from writing a cursor of its own: it begins where that says, in the list that it may see.
    """
    try:
        mark, *values = orjson.loads(base64url.decoded(text))
        if mark == _mark(of):
            return [_read(value) for value in values]
    except (ValueError, TypeError, OverflowError):
        pass
    raise unknown_cursor()


def position_in_order(
    text: str, of: object, order: Sequence[tuple[str, int]], types: Mapping[str, type]
) -> list[SortValue]:
    """The same, for a list in this order of fields, of these types. Raises ProblemError, too, for a position that
    nothing in the list can have."""
    position = position_in(text, of)
    if not is_position(position, order, types):
        raise unknown_cursor()
    return position


def unknown_cursor() -> ProblemError:
    """The problem of a cursor that isn't one of this list."""
    message = "Send `next` of the page before as it is, with the same filters and the same sort"
    return invalid([{"pointer": "/after", "code": "unknown-page", "message": message}])


def _mark(of: object) -> str:
    return blake2b(orjson.dumps(of, option=orjson.OPT_SORT_KEYS), digest_size=8).hexdigest()


def _written(value: SortValue) -> Any:
    # Texts and numbers are themselves; a moment is in a list, to be told from a number.
    return [milliseconds(value)] if isinstance(value, datetime) else value


def _read(value: Any) -> SortValue:
    if isinstance(value, list):
        (moment,) = value
        return from_milliseconds(moment)
    if value is None or isinstance(value, str) or (isinstance(value, int) and abs(value) <= _MOST):
        return value
    raise TypeError
