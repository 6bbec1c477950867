"""Encoded slashes in path parameters: `%2F` is data, and separates nothing (RFC 3986). So is `%0A`.

ASGI passes the path decoded, where `x%2Fy` and `x/y` are the same, and Starlette matches routes by that: with `$`,
which also matches before a line feed at the end (`/metrics%0A` would be `/metrics`), and `.`, which matches none. Here
routes are matched by the path as it was sent, and their parameters are decoded afterwards, each character once.
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

_LINE_FEED: Final = "\udc0a"
"""Stands for a line feed likewise."""

_ENCODED_SLASH: Final = re.compile("%2F", re.IGNORECASE)
_SAFE_IN_PATHS: Final = "/:@!$&'()*+,;="
_ROUTE: Final = "plaudit.route"
_NO_MATCH: Final[tuple[Match, Scope]] = (Match.NONE, {})


def has_encoded_slash(scope: Scope) -> bool:
    """True if the path was sent with an encoded slash."""
    raw: bytes | None = scope.get("raw_path")
    return raw is not None and (b"%2F" in raw or b"%2f" in raw)


def path_to_match(scope: Scope) -> str:
    """The decoded path with stand-ins for encoded slashes and line feeds, which `without_stand_ins` puts back.

    It is as long as the decoded path. Without a raw path, or with one that doesn't match, no slash counts as encoded.
    """
    path: str = scope["path"]
    if has_encoded_slash(scope):
        parts = _ENCODED_SLASH.split(scope["raw_path"].decode("latin-1"))
        divided = _SLASH.join(unquote(part) for part in parts)
        path = divided if without_stand_ins(divided) == path else path
    return path.replace("\n", _LINE_FEED)


def without_stand_ins(text: str) -> str:
    """A part of a matched path, decoded."""
    return text.replace(_SLASH, "/").replace(_LINE_FEED, "\n")


def path_in_addresses(scope: Scope) -> str:
    """The path as in a URL: percent-encoded, with `%2F` where it was sent."""
    parts = path_to_match(scope).split(_SLASH)
    return "%2F".join(quote(without_stand_ins(part), safe=_SAFE_IN_PATHS, errors="replace") for part in parts)


class EncodedSlashes(BaseRoute):
    """The first route of an application: it dispatches requests with encoded slashes or line feeds in their paths to
    all other routes.

    It skips all other requests after one cheap check. Files, which are mounted, have no slashes in their names.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Find the route, or one with other methods (405), or none, which it answers itself with 404."""
        raw = scope.get("raw_path")
        # Nearly all requests end here.
        if raw is None or b"%" not in raw or scope["type"] != "http":
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
            parameters = {name: without_stand_ins(value) for name, value in found["path_params"].items()}
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
