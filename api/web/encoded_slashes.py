"""Encoded slashes in path parameters: `%2F` is data, and separates nothing (RFC 3986).

ASGI passes the path decoded, where `x%2Fy` and `x/y` are the same, and Starlette matches routes by that. Here routes
are matched by the path as it was sent, and their parameters are decoded afterwards, each character once.
`scope["path"]` stays unchanged.
"""

import re
from typing import Final
from urllib.parse import quote, unquote

from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

_SLASH: Final = "\udc2f"
"""Stands for an encoded slash while routes are matched: a lone surrogate, which no decoding yields."""

_ENCODED_SLASH: Final = re.compile("%2F", re.IGNORECASE)
_SAFE_IN_PATHS: Final = "/:@!$&'()*+,;="
_ROUTE: Final = "plaudit.route"
_NO_MATCH: Final[tuple[Match, Scope]] = (Match.NONE, {})


def has_encoded_slash(scope: Scope) -> bool:
    """True if the path was sent with an encoded slash."""
    raw: bytes | None = scope.get("raw_path")
    return raw is not None and (b"%2F" in raw or b"%2f" in raw)


def path_to_match(scope: Scope) -> str:
    """The decoded path with stand-ins for encoded slashes, which `with_slashes` puts back.

    It is as long as the decoded path, and equals it if the server passes no raw path, or one that doesn't match it.
    """
    path: str = scope["path"]
    if not has_encoded_slash(scope):
        return path
    parts = _ENCODED_SLASH.split(scope["raw_path"].decode("latin-1"))
    divided = _SLASH.join(unquote(part) for part in parts)
    return divided if with_slashes(divided) == path else path


def with_slashes(text: str) -> str:
    """A part of a matched path, with its encoded slashes as slashes."""
    return text.replace(_SLASH, "/")


def path_in_addresses(scope: Scope) -> str:
    """The path as in a URL: percent-encoded, with `%2F` where it was sent."""
    parts = path_to_match(scope).split(_SLASH)
    return "%2F".join(quote(part, safe=_SAFE_IN_PATHS, errors="replace") for part in parts)


class EncodedSlashes(BaseRoute):
    """The first route of an application: it dispatches requests with encoded slashes in their paths to all other
    routes.

    It skips all other requests after one cheap check. Files, which are mounted, have no slashes in their names.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Find the route, or one with other methods (405), or none, which it answers itself with 404."""
        raw = scope.get("raw_path")
        # Nearly all requests end here.
        if raw is None or b"%" not in raw or scope["type"] != "http" or not has_encoded_slash(scope):
            return _NO_MATCH
        path = path_to_match(scope)
        if path == scope["path"]:
            return _NO_MATCH
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
        """Pass the request to the route that was found. Raises HTTPException if there is none."""
        route: Route | None = scope[_ROUTE]
        if route is None:
            raise HTTPException(404)
        await route.handle(scope, receive, send)
