"""Slashes in the parameters of paths: `%2F` is a character of a parameter and separates nothing (RFC 3986).

ASGI tells the path decoded, by which `x%2Fy` and `x/y` are one, and Starlette matches routes by that. Here routes are
matched by the path as it was sent, and their parameters are decoded afterwards, each character once. `scope["path"]`
stays as it is.
"""

import re
from typing import Final
from urllib.parse import quote, unquote

from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

_SLASH: Final = "\udc2f"
"""An encoded slash while routes are matched: half a character, which comes out of no decoding."""

_ENCODED_SLASH: Final = re.compile("%2F", re.IGNORECASE)
_OF_PATHS: Final = "/:@!$&'()*+,;="
_ROUTE: Final = "plaudit.route"
_NOTHING: Final[tuple[Match, Scope]] = (Match.NONE, {})


def has_encoded_slash(scope: Scope) -> bool:
    """True where the path was sent with an encoded slash."""
    raw: bytes | None = scope.get("raw_path")
    return raw is not None and (b"%2F" in raw or b"%2f" in raw)


def path_to_match(scope: Scope) -> str:
    """The decoded path, with something else in place of encoded slashes: `with_slashes` puts them back.

    It is as long as the decoded path, and the same where the server tells no raw path, or one that isn't of this path.
    """
    path: str = scope["path"]
    if not has_encoded_slash(scope):
        return path
    parts = _ENCODED_SLASH.split(scope["raw_path"].decode("latin-1"))
    divided = _SLASH.join(unquote(part) for part in parts)
    return divided if with_slashes(divided) == path else path


def with_slashes(text: str) -> str:
    """A part of the path that was matched, as it was meant."""
    return text.replace(_SLASH, "/")


def path_in_addresses(scope: Scope) -> str:
    """The path as it stands in an address: encoded, with `%2F` where that was sent."""
    parts = path_to_match(scope).split(_SLASH)
    return "%2F".join(quote(part, safe=_OF_PATHS, errors="replace") for part in parts)


class EncodedSlashes(BaseRoute):
    """The first route of an application: requests whose paths have encoded slashes, for all its other routes.

    All others it lets pass, for the price of a look. Files, which are mounted, have no slashes in their names.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Find the route, also a route by other methods, or none, which is an answer as well: 404."""
        raw = scope.get("raw_path")
        # Of nearly every request this is all.
        if raw is None or b"%" not in raw or scope["type"] != "http" or not has_encoded_slash(scope):
            return _NOTHING
        path = path_to_match(scope)
        if path == scope["path"]:
            return _NOTHING
        to_match = {**scope, "path": path}
        best: tuple[Match, Scope] = (Match.FULL, {_ROUTE: None})
        for route in scope["router"].routes:
            if not isinstance(route, Route):
                continue
            match, found = route.matches(to_match)
            if match is Match.NONE or (match is Match.PARTIAL and best[1][_ROUTE] is not None):
                continue
            parameters = {name: with_slashes(value) for name, value in found["path_params"].items()}
            best = (Match.FULL, {**found, "path_params": parameters, _ROUTE: route})
            if match is Match.FULL:
                break
        return best

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the route answer that was found. Raises HTTPException."""
        route: Route | None = scope[_ROUTE]
        if route is None:
            raise HTTPException(404)
        await route.handle(scope, receive, send)
