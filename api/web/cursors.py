"""Cursors: the position at which the next page of a list begins, as text that clients send back unchanged."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final

import orjson

from api.web.problems import ProblemError, invalid_at
from domain import base64url
from domain.timestamps import from_milliseconds, milliseconds
from storage.keyset import SortValue, is_position

MAX_CURSOR_LENGTH: Final = 65_536
"""Maximum characters of a cursor: far more than the longest sort values take."""

_MAX_INTEGER: Final = 2**53


def cursor(position: Sequence[SortValue], of: object) -> str:
    """A position in the list that `of` describes: as JSON, so that equal descriptions give equal cursors."""
    values = [_digest(of), *(_encoded(value) for value in position)]
    return base64url.encoded(orjson.dumps(values))


def position_in(text: str, of: object) -> list[SortValue]:
    """The position in a cursor of this list. Raises ProblemError for any other text.

    A client can forge a cursor, but that only chooses another position in a list that it may see.
    """
    try:
        mark, *values = orjson.loads(base64url.decoded(text))
        if mark == _digest(of):
            return [_decoded(value) for value in values]
    except (ValueError, TypeError, OverflowError):
        pass
    raise unknown_cursor()


def position_in_order(
    text: str, of: object, order: Sequence[tuple[str, int]], types: Mapping[str, type]
) -> list[SortValue]:
    """The same, for a list in this order of fields of these types. Raises ProblemError also for a position that no item
    of the list can have."""
    position = position_in(text, of)
    if not is_position(position, order, types):
        raise unknown_cursor()
    return position


def unknown_cursor() -> ProblemError:
    """The problem of a cursor that isn't of this list."""
    message = "Send the `next` of the previous page unchanged, with the same filters and sort"
    return invalid_at("/after", "unknown-page", message)


def _digest(of: object) -> str:
    return blake2b(orjson.dumps(of, option=orjson.OPT_SORT_KEYS), digest_size=8).hexdigest()


def _encoded(value: SortValue) -> Any:
    # A datetime is wrapped in a list, to distinguish it from a number.
    return [milliseconds(value)] if isinstance(value, datetime) else value


def _decoded(value: Any) -> SortValue:
    if isinstance(value, list):
        (moment,) = value
        return from_milliseconds(moment)
    if value is None or isinstance(value, str) or (isinstance(value, int) and abs(value) <= _MAX_INTEGER):
        return value
    raise TypeError
