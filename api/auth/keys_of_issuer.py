"""The public keys of a token issuer: from a file, or fetched from its JWKS URL."""

import asyncio
from collections.abc import Collection, Mapping
from time import monotonic
from typing import Any, Final, Protocol

import httpx
import orjson
import structlog
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt import PyJWK
from jwt.algorithms import get_default_algorithms
from jwt.exceptions import PyJWTError
from jwt.types import JWKDict

from api.auth.authentication import KeysAwayError
from messaging.foreign_answers import read_answer

PAUSE_S: Final = 5.0
"""Minimum seconds between two fetches: anyone can make up key ids that aren't known."""

GRACE_S: Final = 3_600.0
"""Seconds for which the last keys are used while the issuer is unavailable."""

_TIMEOUT_S: Final = 5.0
_MOST_BYTES: Final = 256 * 1024
_MOST_KEYS: Final = 100
_FAILURES: Final = (httpx.HTTPError, TimeoutError, ValueError)

log = structlog.get_logger()

KeySet = Mapping[tuple[str | None, str], PyJWK]
"""Keys by id and algorithm; a single key is also found without an id."""


class IssuerKeys(Protocol):
    """The keys of an issuer."""

    async def find(self, id: str | None, algorithm: str) -> PyJWK | None:
        """The key with this id for this algorithm, or None. Raises KeysAwayError."""
        ...


class StaticKey:
    """One public key from a PEM file, whatever id a token names."""

    def __init__(self, pem: bytes, algorithms: Collection[str]) -> None:
        """Raise ValueError if it isn't a public key in PEM, or of a type that none of the algorithms uses."""
        key = load_pem_public_key(pem)
        known = get_default_algorithms()
        self._keys: dict[str, PyJWK] = {}
        for name in algorithms:
            try:
                self._keys[name] = PyJWK(known[name].to_jwk(key, as_dict=True), name)
            except (PyJWTError, TypeError, ValueError, AttributeError):
                continue  # of another type
        if not self._keys:
            raise ValueError(f"the key can't be used with {', '.join(algorithms)}")

    async def find(self, id: str | None, algorithm: str) -> PyJWK | None:
        """The key, unless it is of another type."""
        return self._keys.get(algorithm)


class FetchedKeys:
    """The keys at a JWKS URL, cached for `lifetime` seconds.

    An unknown key id triggers a fetch, at most every PAUSE_S, so that a rotation is noticed at once. While the issuer
    is unavailable, its last keys are used for GRACE_S; any other key id raises KeysAwayError.
    """

    def __init__(self, url: str, algorithms: Collection[str], *, lifetime: float) -> None:
        self._url = url
        self._algorithms = algorithms
        self._lifetime = lifetime
        self._keys: KeySet = {}
        self._fetched = self._attempted = float("-inf")
        self._is_away = False
        self._fetching: asyncio.Task[None] | None = None
        self._tls = httpx.create_ssl_context()

    async def find(self, id: str | None, algorithm: str) -> PyJWK | None:
        """The key with this id. Raises KeysAwayError if none were fetched in time."""
        found = self._keys.get((id, algorithm))
        age = monotonic() - self._fetched
        if found is not None and age < self._lifetime:
            return found
        if self._fetching is None and monotonic() - self._attempted >= PAUSE_S:
            self._attempted = monotonic()
            self._fetching = asyncio.create_task(self._fetch())
        if self._fetching is not None and (found is None or age > GRACE_S):
            await asyncio.shield(self._fetching)
            found = self._keys.get((id, algorithm))
        # The issuer may have added a key since the last fetch.
        is_unknown = found is None and self._is_away
        if is_unknown or monotonic() - self._fetched > max(GRACE_S, self._lifetime):
            raise KeysAwayError("The keys of the token's issuer can't be fetched at the moment. Try again.")
        return found

    async def check(self) -> None:
        """Fetch the keys. Raises KeysAwayError with the reason if that fails or none of them can be used."""
        try:
            await self._read()
        except _FAILURES as error:
            raise KeysAwayError(f"{type(error).__name__}: {error}") from error

    async def _fetch(self) -> None:
        """Fetch the issuer's current keys; a failure is logged, and the last keys stay."""
        try:
            self._keys = await self._read()
            self._fetched = monotonic()
            self._is_away = False
        except _FAILURES as error:
            self._is_away = True
            log.warning("the issuer's keys can't be fetched", url=self._url, error=f"{type(error).__name__}: {error}")
        finally:
            self._fetching = None

    async def _read(self) -> KeySet:
        async with asyncio.timeout(_TIMEOUT_S):
            return _usable(await self._body(), self._algorithms)

    async def _body(self) -> Any:
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        # No redirects: signing keys come from the configured URL alone.
        async with (
            httpx.AsyncClient(headers=headers, timeout=_TIMEOUT_S, verify=self._tls) as client,
            client.stream("GET", self._url) as response,
        ):
            return orjson.loads(await read_answer(response, _MOST_BYTES))


def _usable(document: Any, algorithms: Collection[str]) -> KeySet:
    """The signing keys of a JWKS document. Raises ValueError if there are none."""
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError("the answer is not a set of keys")
    signing = [
        key
        for key in listed[:_MOST_KEYS]
        if isinstance(key, dict) and key.get("use", "sig") == "sig" and isinstance(key.get("kid"), str | None)
    ]
    keys: dict[tuple[str | None, str], PyJWK] = {}
    for data in signing:
        ids = {data.get("kid"), None} if len(signing) == 1 else {data.get("kid")}
        keys |= {(id, name): key for name, key in _of_one(data, algorithms).items() for id in ids}
    if not keys:
        raise ValueError("the answer has no key for the configured algorithms")
    return keys


def _of_one(data: JWKDict, algorithms: Collection[str]) -> dict[str, PyJWK]:
    """A key for each algorithm that it declares, or that its type allows."""
    keys = {}
    for name in algorithms:
        if data.get("alg", name) == name:
            try:
                keys[name] = PyJWK(data, name)
            except (PyJWTError, TypeError, ValueError, AttributeError):
                continue  # of another type, or malformed
    return keys
