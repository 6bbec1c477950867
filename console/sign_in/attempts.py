"""Pending sign-ins at an OpenID provider, each kept in its visitor's browser."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta
from secrets import token_urlsafe
from typing import Final, Protocol

from console.sign_in.cookies import SealedCookie

ATTEMPT: Final = SealedCookie("__Host-plaudit-sign-in", timedelta(minutes=10))
"""The cookie of a pending sign-in, until the provider redirects the visitor back."""

_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Attempt:
    """A pending sign-in: the values that the answer must match, the page to return to, and its start in POSIX time."""

    state: str
    nonce: str
    verifier: str
    way_back: str
    begun: float

    @classmethod
    def begin(cls, way_back: str, at: datetime) -> "Attempt":
        """A new attempt with fresh secrets."""
        state, nonce, verifier = (token_urlsafe(_SECRET_BYTES) for _ in range(3))
        return cls(state, nonce, verifier, way_back, at.timestamp())

    def sealed(self, keys: Sequence[bytes]) -> str:
        """The value of its cookie."""
        return ATTEMPT.seal(json.dumps(astuple(self)).encode(), keys)


def opened_attempt(value: str, keys: Sequence[bytes], at: datetime) -> Attempt | None:
    """The attempt in the value of a cookie; None if we didn't seal it, or it has expired."""
    content = ATTEMPT.open(value, keys)
    attempt = Attempt(*json.loads(content)) if content else None
    is_late = attempt is not None and at.timestamp() - attempt.begun >= ATTEMPT.lifetime.total_seconds()
    return None if is_late else attempt


class Provider(Protocol):
    """An OpenID provider, at which visitors sign in."""

    async def address(self, attempt: Attempt, redirect_uri: str) -> str:
        """The address at which the visitor signs in. Raises ProblemError: the provider is unavailable."""
        ...

    def code(self, attempt: Attempt, answer: Mapping[str, str]) -> str:
        """The code in the query with which the provider redirected the visitor back; "" if it has none.

        Raises ProblemError (403): it isn't an answer to this attempt, or it reports an error.
        """
        ...

    async def access_token(self, attempt: Attempt, code: str, redirect_uri: str) -> str:
        """The access token that the provider issues for a code.

        Raises ProblemError: the provider refuses the code, or what it issued belongs to another attempt (403), or the
        provider is unavailable (503).
        """
        ...
