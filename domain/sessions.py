"""Sessions of the console: visitor, credential and lifetime."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from domain import base64url

LIFETIME: Final = timedelta(hours=8)
"""Time after which a visitor has to sign in again, even an active one."""

KEY_BYTES: Final = 32
"""Bytes of a key that seals cookies: AES-256."""

_IN_URLS: Final = {ord("+"): "-", ord("/"): "_"}


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in visitor. `credential` is the API key or the token for requests to the API."""

    id: str
    credential: str
    subject: str | None
    issued: datetime

    def is_over(self, at: datetime) -> bool:
        """True if the session has expired at that moment."""
        return at - self.issued >= LIFETIME


def cookie_key(text: str) -> bytes:
    """The key in a base64 text, of either alphabet, with or without padding. Raises ValueError if it isn't 32 bytes."""
    try:
        key = base64url.decoded(text.strip().rstrip("=").translate(_IN_URLS))
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ValueError(f"must be {KEY_BYTES} bytes in base64, as from `openssl rand -base64 {KEY_BYTES}`")
    return key
