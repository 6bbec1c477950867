"""The response header that names the ignored fields of a request: `Plaudit-Ignored`."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADER: Final = b"plaudit-ignored"
_SCOPE_KEY: Final = "plaudit.ignored"
_MOST_BYTES: Final = 1_024
_SAFE: Final = "!#$&'*+.^`|~"
"""Characters allowed in a token (RFC 9110) besides letters, digits and `_.-~`; all others are percent-encoded."""


def note_ignored(scope: Scope, names: Iterable[str]) -> None:
    """Name these fields in the response to this request."""
    scope[_SCOPE_KEY] = (*scope.get(_SCOPE_KEY, ()), *names)


def ignored_header(names: Iterable[str]) -> bytes:
    """The value of the header: the names in their order, without duplicates, as many as fit, then `...`."""
    shown: list[str] = []
    room = _MOST_BYTES
    for name in dict.fromkeys(names):
        written = quote(name, safe=_SAFE, errors="replace")
        room -= len(written) + 2
        if room < 0:
            shown.append("...")
            break
        shown.append(written)
    return ", ".join(shown).encode()


def with_ignored_header(app: ASGIApp) -> ASGIApp:
    """The app, with the header in those of its responses for which fields were noted."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        async def with_header(message: Message) -> None:
            if _SCOPE_KEY in scope and message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (_HEADER, ignored_header(scope[_SCOPE_KEY]))]
            await send(message)

        await app(scope, receive, with_header)

    return serve
