"""Sessions of the console: who signed in, by what, and for how long that holds."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from domain import base64url

LIFETIME: Final = timedelta(hours=8)
"""After it a visitor signs in again, also one who never left."""

KEY_BYTES: Final = 32
"""Of a key that seals cookies: AES-256."""

_IN_URLS: Final = {ord("+"): "-", ord("/"): "_"}


@dataclass(frozen=True, slots=True)
class Session:
    """A visitor who is signed in. `credential` is the API key or the token that the API is asked with."""

    id: str
    credential: str
    subject: str | None
    issued: datetime

    def is_over(self, at: datetime) -> bool:
        """True if its time has passed at that moment."""
        return at - self.issued >= LIFETIME


def cookie_key(text: str) -> bytes:
    """A key from its base64, in either alphabet, with padding or without. Raises ValueError: not 32 bytes in base64."""
    try:
        key = base64url.decoded(text.strip().rstrip("=").translate(_IN_URLS))
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ValueError(f"must be {KEY_BYTES} bytes in base64, as `openssl rand -base64 {KEY_BYTES}` writes them")
    return key
