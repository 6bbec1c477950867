"""The undoing of the last decision, which the next page of the queue offers.

A cookie brings it there: an address can be written by anybody, who would have a visitor undo what he never decided.
"""

import json
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

import orjson
from starlette.requests import Request
from starlette.responses import Response

from messaging.schemas import ID_LENGTH

COOKIE: Final = "plaudit-undo"
"""The console's script writes it, too."""

PATH: Final = "/console/queue"
"""The queue, the only page that has an undoing to offer."""

_KEPT_S: Final = 300
_ACTIONS: Final = frozenset({"approve", "reject", "reset"})
_FIELDS: Final = ("id", "action", "expected", "seen", "reasonCode")


def offer(response: Response, undo: Mapping[str, str]) -> None:
    """Have the next page of the queue offer this: the id of a review, the action, the status and the mark with which it
    is expected, and the reason code of a rejection."""
    response.set_cookie(COOKIE, quote(json.dumps(undo), safe=""), _KEPT_S, path=PATH, samesite="strict")


def offered(request: Request) -> dict[str, str] | None:
    """The undoing to offer, each field a text, empty where it is unknown; None where there is none, or it says nothing
    of what its decision was about: a cookie can come from elsewhere below the same domain."""
    try:
        told = orjson.loads(unquote(request.cookies.get(COOKIE, "")))  # which refuses halves of characters
        undo = {name: str(told.get(name) or "") for name in _FIELDS}
    except (ValueError, AttributeError):
        return None
    is_whole = 0 < len(undo["id"]) <= ID_LENGTH and undo["action"] in _ACTIONS and undo["seen"]
    return undo if is_whole else None


def withdraw(response: Response) -> None:
    """Have no further page offer it."""
    response.delete_cookie(COOKIE, path=PATH, samesite="strict")
