"""Sealed cookies: nobody but us can read or change them, and each is good under its own name alone.

Sealed is `1 || nonce || AES-256-GCM(content)` in base64url, with the version and the cookie's name as associated data.
"""

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from os import urandom
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from starlette.responses import Response

from domain import base64url
from domain.sessions import LIFETIME, Session

MOST_CHARACTERS: Final = 4_000
"""Of a value: browsers keep 4,096 bytes of name and value together, and drop a longer cookie without a word."""

_VERSION: Final = b"\x01"
_NONCE_BYTES: Final = 12


class TooLargeError(Exception):
    """A credential, sealed, is longer than a cookie may be."""


@dataclass(frozen=True, slots=True)
class SealedCookie:
    """A cookie that a browser keeps for so long, and sends to us alone."""

    name: str
    lifetime: timedelta

    def seal(self, content: bytes, keys: Sequence[bytes]) -> str:
        """The value of the cookie, sealed by the first key. Raises TooLargeError."""
        nonce = urandom(_NONCE_BYTES)
        sealed = _VERSION + nonce + AESGCM(keys[0]).encrypt(nonce, content, self._bound_to)
        value = base64url.encoded(sealed)
        if len(value) > MOST_CHARACTERS:
            raise TooLargeError
        return value

    def open(self, value: str, keys: Sequence[bytes]) -> bytes | None:
        """The content; None where none of the keys has sealed it under this name."""
        try:
            sealed = base64url.decoded(value)
        except ValueError:
            return None
        if sealed[:1] != _VERSION or len(sealed) <= _NONCE_BYTES:
            return None
        nonce, content = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        for key in keys:
            try:
                return AESGCM(key).decrypt(nonce, content, self._bound_to)
            except InvalidTag:
                continue
        return None

    def put(self, response: Response, value: str) -> None:
        """Have the browser keep the cookie."""
        seconds = int(self.lifetime.total_seconds())
        response.set_cookie(self.name, value, seconds, path="/", secure=True, httponly=True, samesite="lax")

    def remove(self, response: Response) -> None:
        """Have the browser drop the cookie."""
        response.delete_cookie(self.name, path="/", secure=True, httponly=True, samesite="lax")

    @property
    def _bound_to(self) -> bytes:
        return _VERSION + self.name.encode()


SESSION: Final = SealedCookie("__Host-plaudit", LIFETIME)
"""Browsers take `__Host-` from us alone, over TLS or from this machine, and for no other host."""


def sealed_session(session: Session, keys: Sequence[bytes]) -> str:
    """The value of the cookie of a session. Raises TooLargeError."""
    fields = [session.id, session.credential, session.subject, session.issued.timestamp()]
    return SESSION.seal(zlib.compress(json.dumps(fields).encode(), 9), keys)


def opened_session(value: str, keys: Sequence[bytes], at: datetime) -> Session | None:
    """The session of a cookie; None where we didn't seal it, or its time has passed at that moment."""
    content = SESSION.open(value, keys)
    if content is None:
        return None
    id, credential, subject, issued = json.loads(zlib.decompress(content))
    session = Session(id, credential, subject, datetime.fromtimestamp(issued, UTC))
    return None if session.is_over(at) else session
