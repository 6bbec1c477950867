"""Sealed cookies: encrypted, authenticated, and valid only under their own name.

A value is `1 || nonce || AES-256-GCM(content)` in base64url, with the version and the cookie's name as associated data.
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
"""Maximum length of a value: browsers store 4,096 bytes of name and value, and silently drop a longer cookie."""

_VERSION: Final = b"\x01"
_NONCE_BYTES: Final = 12


class TooLargeError(Exception):
    """A sealed credential is longer than a cookie may be."""


@dataclass(frozen=True, slots=True)
class SealedCookie:
    """A sealed cookie that a browser keeps for its lifetime, and sends only to us."""

    name: str
    lifetime: timedelta

    def seal(self, content: bytes, keys: Sequence[bytes]) -> str:
        """The value of the cookie, sealed by the first key. Raises TooLargeError."""
        nonce = urandom(_NONCE_BYTES)
        sealed = _VERSION + nonce + AESGCM(keys[0]).encrypt(nonce, content, self._associated_data)
        value = base64url.encoded(sealed)
        if len(value) > MOST_CHARACTERS:
            raise TooLargeError
        return value

    def open(self, value: str, keys: Sequence[bytes]) -> bytes | None:
        """The content; None if none of the keys has sealed it under this name."""
        try:
            sealed = base64url.decoded(value)
        except ValueError:
            return None
        if sealed[:1] != _VERSION or len(sealed) <= _NONCE_BYTES:
            return None
        nonce, content = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        for key in keys:
            try:
                return AESGCM(key).decrypt(nonce, content, self._associated_data)
            except InvalidTag:
                continue
        return None

    def put(self, response: Response, value: str) -> None:
        """Set the cookie."""
        seconds = int(self.lifetime.total_seconds())
        response.set_cookie(self.name, value, seconds, path="/", secure=True, httponly=True, samesite="lax")

    def remove(self, response: Response) -> None:
        """Delete the cookie."""
        response.delete_cookie(self.name, path="/", secure=True, httponly=True, samesite="lax")

    @property
    def _associated_data(self) -> bytes:
        return _VERSION + self.name.encode()


SESSION: Final = SealedCookie("__Host-plaudit", LIFETIME)
"""Browsers accept a `__Host-` cookie only from the host itself, over TLS or from localhost, and send it to no other."""


def sealed_session(session: Session, keys: Sequence[bytes]) -> str:
    """The value of a session's cookie. Raises TooLargeError."""
    fields = [session.id, session.credential, session.subject, session.issued.timestamp()]
    return SESSION.seal(zlib.compress(json.dumps(fields).encode(), 9), keys)


def opened_session(value: str, keys: Sequence[bytes], at: datetime) -> Session | None:
    """The session in the value of a cookie; None if we didn't seal it, or it has expired at that moment."""
    content = SESSION.open(value, keys)
    if content is None:
        return None
    id, credential, subject, issued = json.loads(zlib.decompress(content))
    session = Session(id, credential, subject, datetime.fromtimestamp(issued, UTC))
    return None if session.is_over(at) else session
