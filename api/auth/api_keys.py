"""API keys: `plaudit_<id>_<secret>`, stored as their id and the hash of their secret."""

import hmac
import re
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from api.auth.authentication import Authenticator, RefusedCredentialError, required
from api.auth.timed_cache import TimedCache
from domain.permissions import Caller
from storage.keys import ApiKey, ApiKeyRepository

PATTERN: Final = re.compile(r"plaudit_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")

REMEMBERED_SECONDS: Final = 5.0
"""Seconds for which a looked-up key is cached; a revoked key may work for that long."""

OWNER_SECONDS: Final = 3_600.0
"""Seconds for which a verified key is remembered: looking it up again doesn't count as a guess."""

_REMEMBERED_KEYS: Final = 10_000
_NO_DIGEST: Final = bytes(32)
_REFUSED: Final = "This API key is unknown, revoked or expired."


class ApiKeys(Authenticator):
    """Authenticates callers by their API keys.

    A secret has 256 random bits, so one round of SHA-256 protects it as well as a slow hash would.
    """

    mode = "api_key"

    def __init__(self, keys: ApiKeyRepository) -> None:
        self._keys = keys
        self._looked_up: TimedCache[ApiKey | _Unknown] = TimedCache(_REMEMBERED_KEYS)
        self._verified_digests: TimedCache[bytes] = TimedCache(_REMEMBERED_KEYS)

    def would_look_up(self, credential: str | None) -> bool:
        """True for a well-formed key that was not verified recently."""
        match = PATTERN.fullmatch(credential or "")
        if match is None or self._looked_up.get(match[1]) is not None:
            return False
        return not hmac.compare_digest(secret_digest(match[2]), self._verified_digests.get(match[1]) or _NO_DIGEST)

    async def caller(self, credential: str | None) -> Caller:
        """The owner of a key. Raises RefusedCredentialError."""
        match = PATTERN.fullmatch(required(credential))
        if match is None:
            raise RefusedCredentialError(_REFUSED)
        key = await self._key(match[1])
        # Compared even if there is no such key, so that the timing reveals nothing.
        is_same = hmac.compare_digest(secret_digest(match[2]), key.digest if key else _NO_DIGEST)
        if key is None or not is_same or not key.is_valid(datetime.now(UTC)):
            raise RefusedCredentialError(_REFUSED)
        self._verified_digests.put(match[1], key.digest, OWNER_SECONDS)
        return key.caller

    async def _key(self, id: str) -> ApiKey | None:
        known = self._looked_up.get(id)
        if known is None:
            known = await self._keys.get(id) or _UNKNOWN
            self._looked_up.put(id, known, REMEMBERED_SECONDS)
        return known if isinstance(known, ApiKey) else None


class _Unknown:
    """Cached for an id without a key."""


_UNKNOWN: Final = _Unknown()


def secret_digest(secret: str) -> bytes:
    """The stored digest of a secret: SHA-256."""
    return sha256(secret.encode()).digest()
