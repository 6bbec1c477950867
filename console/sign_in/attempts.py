"""Sign-ins at an OpenID provider that have begun, each in the browser of its visitor."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta
from secrets import token_urlsafe
from typing import Final, Protocol

from console.sign_in.cookies import SealedCookie

ATTEMPT: Final = SealedCookie("__Host-plaudit-sign-in", timedelta(minutes=10))
"""The cookie of a sign-in that has begun, until the provider sends the visitor back."""

_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Attempt:
    """A sign-in that has begun at that moment: what the answer must match, and where the visitor wants to go."""

    state: str
    nonce: str
    verifier: str
    way_back: str
    begun: float

    @classmethod
    def begin(cls, way_back: str, at: datetime) -> "Attempt":
        """A new one, with secrets of its own."""
        state, nonce, verifier = (token_urlsafe(_SECRET_BYTES) for _ in range(3))
        return cls(state, nonce, verifier, way_back, at.timestamp())

    def sealed(self, keys: Sequence[bytes]) -> str:
        """The value of its cookie."""
        return ATTEMPT.seal(json.dumps(astuple(self)).encode(), keys)


def opened_attempt(value: str, keys: Sequence[bytes], at: datetime) -> Attempt | None:
    """The attempt of a cookie; None where we didn't seal it, or it took too long."""
    content = ATTEMPT.open(value, keys)
    attempt = Attempt(*json.loads(content)) if content else None
    is_late = attempt is not None and at.timestamp() - attempt.begun >= ATTEMPT.lifetime.total_seconds()
    return None if is_late else attempt


class Provider(Protocol):
    """The place where visitors sign in, and what it lets in by."""

    async def address(self, attempt: Attempt, redirect_uri: str) -> str:
        """The page at which the visitor signs in. Raises ProblemError: the provider is away."""
        ...

    async def access_token(self, attempt: Attempt, answer: Mapping[str, str], redirect_uri: str) -> str:
        """The access token for the query that the visitor came back with.

        Raises ProblemError: it isn't an answer to this attempt (403), or the provider is away (503).
        """
        ...
