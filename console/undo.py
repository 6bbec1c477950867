"""Undo of the last decision, which the next page of the queue offers.

It is passed on in a cookie: with an address, anybody could make a visitor undo a decision that wasn't theirs.
"""

import json
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

import orjson
from starlette.requests import Request
from starlette.responses import Response

from domain.reviews import ModerationAction, ReviewStatus, status_after
from messaging.schemas import ID_LENGTH

COOKIE: Final = "plaudit-undo"
"""The console's script sets this cookie, too."""

PATH: Final = "/console/queue"
"""Path of the queue, the only page that offers an undo."""

RESTORING: Final = {
    status.label: action.value
    for action in ModerationAction
    # An import's action has no status of its own, and a deletion leaves none.
    if action is not ModerationAction.RESTORE and (status := status_after(ReviewStatus.NEW, action)) is not None
}
"""The decision that restores a status."""

_MAX_AGE_S: Final = 300
_FIELDS: Final = ("id", "action", "expected", "seen", "reasonCode")


def offer(response: Response, undo: Mapping[str, str]) -> None:
    """Have the next page of the queue offer this undo: the id of the review, the action, its expected status, the
    hash of its content, and the reason code of a rejection."""
    response.set_cookie(COOKIE, quote(json.dumps(undo), safe=""), _MAX_AGE_S, path=PATH, samesite="strict")


def offered(request: Request) -> dict[str, str] | None:
    """The undo to offer, unknown fields as empty strings. None if there is none, or it lacks an id, a known action, a
    status or a hash: other hosts of the same domain can set the cookie, too."""
    try:
        fields = orjson.loads(unquote(request.cookies.get(COOKIE, "")))  # which refuses lone surrogates
        undo = {name: str(fields.get(name) or "") for name in _FIELDS}
    except (ValueError, AttributeError):
        return None
    is_known = undo["action"] in RESTORING.values() and undo["expected"] in RESTORING
    return undo if is_known and 0 < len(undo["id"]) <= ID_LENGTH and undo["seen"] else None


def withdraw(response: Response) -> None:
    """Delete the cookie, so that no other page offers the undo."""
    response.delete_cookie(COOKIE, path=PATH, samesite="strict")
