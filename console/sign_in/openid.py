"""Sign-in at an OpenID provider: authorization code flow with PKCE (S256), state and nonce."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import structlog
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client

from api.auth.authentication import KeysAwayError, RefusedCredentialError
from api.auth.permissions import forbidden
from api.auth.tokens import Tokens
from api.web.problems import unavailable
from console.sign_in.attempts import Attempt, Provider
from domain.origins import is_confidential
from messaging.server_errors import for_log

_DISCOVERY: Final = "/.well-known/openid-configuration"
_DISCOVERY_CACHE_S: Final = 3_600.0
PAUSE_S: Final = 5.0
"""Seconds between a discovery that failed and the next one."""

_TIMEOUT_S: Final = 10.0
_MOST_BYTES: Final = 256 * 1024
_PROVIDER: Final = "The sign-in page of your organisation"
_UNREADABLE: Final = (ValueError, RecursionError, TypeError, OverflowError)
"""The errors of JSON that is invalid or nested too deeply, and of times of expiry that authlib can't read."""

_FAILURES: Final = (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, *_UNREADABLE)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class OpenIdClient:
    """Plaudit's registration with the provider. Without a secret it is a public client; without the addresses of both
    endpoints these are discovered. `parameters`, such as `resource` or `audience`, are sent to both endpoints."""

    id: str
    secret: str | None
    issuer: str
    scopes: str
    parameters: Mapping[str, str]
    authorize_url: str | None = None
    token_url: str | None = None


@dataclass(frozen=True, slots=True)
class _Endpoints:
    authorize: str
    token: str


class OpenIdProvider(Provider):
    """Redirects visitors to an OpenID provider, and exchanges the codes that they come back with for access tokens."""

    def __init__(self, client: OpenIdClient, id_tokens: Tokens) -> None:
        """`id_tokens` validates ID tokens of the issuer, with the client's id as audience."""
        self._client = client
        self._id_tokens = id_tokens
        self._found: _Endpoints | None = None
        self._found_at = self._failed_at = float("-inf")
        self._discovery: asyncio.Task[_Endpoints | None] | None = None
        self._tls = httpx2.create_ssl_context()
        if client.authorize_url and client.token_url:
            self._found, self._found_at = _Endpoints(client.authorize_url, client.token_url), float("inf")

    async def address(self, attempt: Attempt, redirect_uri: str) -> str:
        """The provider's authorization endpoint, with the parameters of this attempt."""
        endpoints = await self._endpoints()
        async with self._open_client(redirect_uri) as client:
            address, _ = client.create_authorization_url(
                endpoints.authorize,
                state=attempt.state,
                code_verifier=attempt.verifier,
                nonce=attempt.nonce,
                **self._client.parameters,
            )
            return str(address)

    def code(self, attempt: Attempt, answer: Mapping[str, str]) -> str:
        """The code, if the answer belongs to this attempt and reports no error."""
        if not hmac.compare_digest(answer.get("state", "").encode(), attempt.state.encode()):
            raise forbidden("A newer sign-in was started in another window or tab. Continue there.")
        # RFC 9207: another provider's answer must not be taken for this one's.
        if answer.get("iss", self._client.issuer) != self._client.issuer:
            raise forbidden("The answer comes from another issuer.")
        if "error" in answer:
            log.info("the OpenID provider reported an error", error=answer["error"][:100])
            denied = answer["error"] == "access_denied"
            raise forbidden("The sign-in was cancelled." if denied else "The sign-in page reports an error.")
        return answer.get("code", "")

    async def access_token(self, attempt: Attempt, code: str, redirect_uri: str) -> str:
        """The access token, if the ID token belongs to this attempt."""
        endpoints = await self._endpoints()
        async with self._open_client(redirect_uri) as client:
            try:
                token: Mapping[str, Any] = await client.fetch_token(
                    endpoints.token,
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=attempt.verifier,
                    **self._client.parameters,
                )
            except OAuthError as error:
                log.warning("the OpenID provider refused a code", error=f"{error.error}: {error.description}"[:300])
                raise forbidden(f"The sign-in page's answer isn't valid ({error.error}).") from error
        await self._check_identity(attempt, token.get("id_token"))
        access_token = token.get("access_token")
        if not isinstance(access_token, str):
            raise forbidden("The sign-in page's answer has no access token.")
        return access_token

    async def _check_identity(self, attempt: Attempt, id_token: Any) -> None:
        """Raises ProblemError unless the ID token was issued for this attempt and this client."""
        try:
            claims = await self._id_tokens.claims(id_token if isinstance(id_token, str) else "")
        except RefusedCredentialError as error:
            raise forbidden(f"The sign-in page's answer isn't valid. {error}") from error
        except KeysAwayError as error:
            raise unavailable(_PROVIDER) from error
        nonce = claims.get("nonce")
        if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), attempt.nonce.encode()):
            raise forbidden("The sign-in page's answer belongs to another sign-in.")
        if claims.get("azp", self._client.id) != self._client.id:
            raise forbidden("The sign-in page's answer is for another client.")

    @asynccontextmanager
    async def _open_client(self, redirect_uri: str) -> AsyncIterator[AsyncOAuth2Client]:
        """An HTTP client for the provider. Raises ProblemError: the provider can't be reached, or answers nonsense."""
        ours = self._client
        client = AsyncOAuth2Client(
            ours.id,
            ours.secret,
            scope=ours.scopes,
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
            **self._http_options(),
        )
        try:
            async with asyncio.timeout(_TIMEOUT_S), client:
                yield client
        except _FAILURES as error:
            _log_failure(error)
            raise unavailable(_PROVIDER) from error

    async def _endpoints(self) -> _Endpoints:
        """The endpoints, as the provider publishes them, cached; one request serves all who wait for them. While it
        fails, the last ones are used. Raises ProblemError: there are none, and it fails or did within PAUSE_S."""
        if self._found is not None and monotonic() - self._found_at < _DISCOVERY_CACHE_S:
            return self._found
        if self._discovery is None and monotonic() - self._failed_at >= PAUSE_S:
            self._discovery = asyncio.create_task(self._discover())
        found = await asyncio.shield(self._discovery) if self._discovery is not None else None
        if (endpoints := found or self._found) is None:
            raise unavailable(_PROVIDER)
        return endpoints

    async def fault(self) -> Exception | None:
        """The error for which the endpoints can't be discovered; None if they can, or are configured."""
        if self._found is None:
            try:
                await self._published()
            except _FAILURES as error:
                return error
        return None

    async def _discover(self) -> _Endpoints | None:
        """Request the provider's document; None if it can't be had, which is logged."""
        try:
            self._found, self._found_at = await self._published(), monotonic()
            return self._found
        except _FAILURES as error:
            self._failed_at = monotonic()
            _log_failure(error)
            return None
        finally:
            self._discovery = None

    async def _published(self) -> _Endpoints:
        """The endpoints in the provider's document. Raises one of _FAILURES."""
        issuer = self._client.issuer
        async with asyncio.timeout(_TIMEOUT_S), httpx2.AsyncClient(**self._http_options()) as client:
            response = await client.get(issuer.rstrip("/") + _DISCOVERY)
            response.raise_for_status()
            return _endpoints_in(response.json(), issuer)

    def _http_options(self) -> dict[str, Any]:
        # Uncompressed, so that the bytes received are the bytes counted.
        headers, hooks = {"accept-encoding": "identity"}, {"response": [_bound]}
        return {"timeout": _TIMEOUT_S, "verify": self._tls, "headers": headers, "event_hooks": hooks}


class _Bounded(httpx2.AsyncByteStream):
    """The body of an answer. Raises ValueError if it is larger than _MOST_BYTES."""

    def __init__(self, body: Any) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._body:
            size += len(chunk)
            if size > _MOST_BYTES:
                raise ValueError(f"the answer has more than {_MOST_BYTES} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


async def _bound(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise ValueError("the answer is compressed, although it was to be plain")
    response.stream = _Bounded(response.stream)


def _log_failure(error: Exception) -> None:
    log.warning("the OpenID provider is unavailable", error=for_log(error))


def _endpoints_in(document: Any, issuer: str) -> _Endpoints:
    """The endpoints of a discovery document. Raises ValueError."""
    if not isinstance(document, dict) or document.get("issuer") != issuer:
        raise ValueError("the document is from another issuer than the configured one")
    authorize, token = (str(document.get(f"{name}_endpoint")) for name in ("authorization", "token"))
    for address in (authorize, token):
        parts = urlsplit(address)
        if not is_confidential(parts.scheme, parts.hostname or ""):
            raise ValueError(f"the endpoint {address} is not https")
    return _Endpoints(authorize, token)
