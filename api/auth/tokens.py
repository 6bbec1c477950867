"""JSON Web Tokens of an OpenID Connect issuer, verified with its public keys."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import jwt
from jwt.exceptions import (
    ExpiredSignatureError,
    ImmatureSignatureError,
    InvalidAudienceError,
    InvalidIssuerError,
    MissingRequiredClaimError,
    PyJWTError,
)

from api.auth.authentication import Authenticator, RefusedCredentialError, required
from api.auth.keys_of_issuer import IssuerKeys
from api.auth.timed_cache import TimedCache
from domain.permissions import Caller, known_permissions
from messaging.callers import fault_of_name
from messaging.schemas import ID_LENGTH, MAX_ITEMS

REMEMBERED_SECONDS: Final = 60.0
"""Seconds for which a verified token isn't checked again, even if its issuer withdraws the key."""

_REMEMBERED_TOKENS: Final = 10_000
_MOST_STORES: Final = MAX_ITEMS
_NOT_STORED: Final = re.compile("[\0\ud800-\udfff]")
"""NUL, and lone surrogates, which JSON can escape but UTF-8 can't encode."""

_REASONS: Final[dict[type[PyJWTError], str]] = {
    ExpiredSignatureError: "The token has expired.",
    ImmatureSignatureError: "The token is not valid yet.",
    InvalidAudienceError: "The token is for another audience.",
    InvalidIssuerError: "The token is from another issuer.",
    MissingRequiredClaimError: "The token lacks one of the claims exp, iss, aud and sub.",
}


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The claims that a token must have. `leeway`: the tolerated clock skew in seconds."""

    issuer: str
    audience: str
    algorithms: Sequence[str]
    leeway: float = 30.0
    permissions_claim: str = "scope"
    stores_claim: str = "stores"


class Tokens(Authenticator):
    """Authenticates callers by the tokens of one issuer; the configuration allows asymmetric algorithms only."""

    mode = "jwt"
    asks_issuer = True

    def __init__(self, keys: IssuerKeys, rules: TokenRules) -> None:
        self._keys = keys
        self._rules = rules
        self._known: TimedCache[Caller] = TimedCache(_REMEMBERED_TOKENS)

    async def caller(self, credential: str | None) -> Caller:
        """The subject of a token. Raises RefusedCredentialError or KeysAwayError."""
        token = required(credential)
        name = sha256(token.encode()).digest()
        known = self._known.get(name)
        if known is not None:
            return known
        claims = await self.claims(token)
        caller = self._caller(claims)
        now = time.time()
        # Compared as an integer: it may be too large for a float.
        ends = min(int(claims["exp"]), int(now + REMEMBERED_SECONDS)) + self._rules.leeway
        self._known.put(name, caller, min(REMEMBERED_SECONDS, ends - now))
        return caller

    async def claims(self, token: str) -> dict[str, Any]:
        """The claims of a valid token. Raises RefusedCredentialError or KeysAwayError."""
        rules = self._rules
        try:
            header = jwt.get_unverified_header(token)
            algorithm = str(header.get("alg"))
            if algorithm not in rules.algorithms:
                raise RefusedCredentialError("The token is signed by an algorithm that isn't accepted here.")
            key = await self._keys.find(header.get("kid"), algorithm)
            if key is None:
                raise RefusedCredentialError("The token is signed with a key that its issuer doesn't have.")
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(rules.algorithms),
                issuer=rules.issuer,
                audience=rules.audience,
                leeway=rules.leeway,
                options={"require": ["exp", "iss", "aud", "sub"], "enforce_minimum_key_length": True},
            )
        except (PyJWTError, ValueError, RecursionError) as error:
            raise RefusedCredentialError(_reason(error)) from error
        return claims

    def _caller(self, claims: dict[str, Any]) -> Caller:
        subject = claims["sub"]
        if fault := fault_of_name(subject):
            raise RefusedCredentialError(f"The subject of the token {fault}.")
        return Caller(
            subject,
            known_permissions(_names(claims.get(self._rules.permissions_claim, []), self._rules.permissions_claim)),
            self._stores(claims),
        )

    def _stores(self, claims: dict[str, Any]) -> frozenset[str] | None:
        name = self._rules.stores_claim
        if name not in claims:
            return None
        # An unreadable claim must not mean "all stores".
        stores = claims[name]
        if not isinstance(stores, list) or not all(isinstance(id, str) and _is_id(id) for id in stores):
            raise RefusedCredentialError(f"The claim {name} of the token must be an array of store ids.")
        if len(stores) > _MOST_STORES:
            raise RefusedCredentialError(f"The claim {name} of the token has more than {_MOST_STORES} store ids.")
        return frozenset(stores)


def _is_id(text: str) -> bool:
    return bool(text.strip()) and len(text) <= ID_LENGTH and not _NOT_STORED.search(text)


def _reason(error: Exception) -> str:
    return next((text for kind, text in _REASONS.items() if isinstance(error, kind)), "The token is not valid.")


def _names(claim: Any, name: str) -> list[str]:
    """The names in a claim: one string, as in the scope of OAuth 2, or an array."""
    if isinstance(claim, str):
        return claim.split()
    if isinstance(claim, list) and all(isinstance(each, str) for each in claim):
        return claim
    raise RefusedCredentialError(f"The claim {name} of the token must be a string or an array of strings.")
