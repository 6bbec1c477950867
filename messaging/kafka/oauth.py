"""Tokens for Kafka's OAUTHBEARER, by the client credentials grant of OAuth 2."""

import asyncio
from time import monotonic
from typing import Any, Final

import httpx
import orjson
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError

from messaging.foreign_answers import read_answer

_TIMEOUT_S: Final = 10.0
_MOST_BYTES: Final = 256 * 1024
_MARGIN_S: Final = 30.0
"""Seconds before its expiry at which a token is replaced."""

_MIN_KEPT_S: Final = 1.0


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """Requests tokens from a token endpoint, and keeps each until shortly before its expiry."""

    def __init__(self, url: str, client_id: str, client_secret: str, scope: str | None) -> None:
        self._url = url
        self._credentials = (client_id, client_secret)
        self._form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        self._token = ""
        self._replace_at = float("-inf")
        self._lock = asyncio.Lock()

    async def token(self) -> str:
        """A valid token. Raises KafkaConnectionError if the endpoint gives none, so that aiokafka tries again."""
        async with self._lock:
            if monotonic() >= self._replace_at:
                try:
                    await self._request_token()
                except (httpx.HTTPError, TimeoutError, ValueError, KeyError, TypeError) as error:
                    # Without the response, which may contain a token.
                    raise KafkaConnectionError(f"No token from {self._url}: {type(error).__name__}") from error
            return self._token

    async def _request_token(self) -> None:
        async with asyncio.timeout(_TIMEOUT_S):
            answer = await self._answer()
        token, seconds = answer["access_token"], float(answer.get("expires_in", 0))
        if not isinstance(token, str):
            raise TypeError("access_token")
        self._token = token
        self._replace_at = monotonic() + max(_MIN_KEPT_S, seconds - _MARGIN_S)

    async def _answer(self) -> Any:
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        async with (
            httpx.AsyncClient(headers=headers, timeout=_TIMEOUT_S) as client,
            client.stream("POST", self._url, data=self._form, auth=self._credentials) as response,
        ):
            return orjson.loads(await read_answer(response, _MOST_BYTES))
