"""Names over HTTP: an address with the id in it, and where in the answer name and image stand."""

import asyncio
import re
import ssl
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote, unquote

import httpx
import orjson

from domain.entity_types import PartlyResolvedError, ResolvedEntity, ResolverError
from plaudit.entity_types.resolvers import resolved_entity

MOST_REQUESTS: Final = 8
"""Requests that run at a time."""

MOST_BYTES: Final = 1024 * 1024
"""The longest answer that is read."""

MOST_REDIRECTS: Final = 3
ID: Final = "{id}"

_UNKNOWN: Final = frozenset({httpx.codes.NOT_FOUND, httpx.codes.GONE})
_PATH_STEPS: Final = frozenset({".", ".."})
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class HttpResolver:
    """Asks `url` for each id, which it holds as `{id}`; `name` and `image` are paths in the JSON that answers.

    The id is percent-encoded; one that a server would read as another path once it has decoded it, however often, is
    unknown without asking. So it is with 404, with 410, and with an answer without a name. Redirects are followed
    within the same origin only. `timeout` is in seconds, for each request. When some requests fail the others' names
    are told by PartlyResolvedError; any ResolverError when all do.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        image: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 2.0,
    ) -> None:
        self._url = url
        self._name = name
        self._image = image
        # Not compressed, so that the bytes that come are the bytes that are counted.
        self._headers = {"accept": "application/json", **(headers or {}), "accept-encoding": "identity"}
        self._timeout = timeout
        self._slots = asyncio.Semaphore(MOST_REQUESTS)

    async def __call__(self, ids: Collection[str]) -> Mapping[str, ResolvedEntity]:
        """Names and images by id. Raises ResolverError, PartlyResolvedError where some requests succeeded."""
        asked = [id for id in ids if not self._leads_elsewhere(id)]
        async with httpx.AsyncClient(headers=self._headers, timeout=self._timeout, verify=self._tls) as client:
            answers = await asyncio.gather(*(self._entity(client, id) for id in asked), return_exceptions=True)
        found = {id: a for id, a in zip(asked, answers, strict=True) if isinstance(a, ResolvedEntity)}
        failures = {id: a for id, a in zip(asked, answers, strict=True) if isinstance(a, BaseException)}
        if not failures:
            return found
        failure = next(iter(failures.values()))
        if len(failures) == len(answers):
            raise failure
        reason = str(failure) if isinstance(failure, ResolverError) else type(failure).__name__
        raise PartlyResolvedError(reason, found, failures.keys()) from failure

    def _leads_elsewhere(self, id: str) -> bool:
        plain = id
        while (decoded := unquote(plain)) != plain:
            plain = decoded
        # Behind a semicolon some servers read parameters of the step before it.
        places = (part.replace(ID, plain) for part in re.split("[/?]", self._url) if ID in part)
        steps = (step.partition(";")[0] for place in places for step in re.split(r"[/\\]", place))
        return any(step in _PATH_STEPS for step in steps) or _CONTROL.search(plain) is not None

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return httpx.create_ssl_context()

    async def _entity(self, client: httpx.AsyncClient, id: str) -> ResolvedEntity | None:
        try:
            async with self._slots, asyncio.timeout(self._timeout):
                body = await _read(client, client.build_request("GET", self._url.replace(ID, quote(id, safe=""))))
        except TimeoutError:
            raise ResolverError(f"no answer within {self._timeout} s") from None
        except httpx.HTTPError as error:
            # Its text may hold the address, and that the id.
            raise ResolverError(f"the request failed: {type(error).__name__}") from error
        if body is None:
            return None
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            raise ResolverError("the answer is not JSON") from None
        image = value_at(answer, self._image) if self._image else None
        return resolved_entity(value_at(answer, self._name), image)


async def _read(client: httpx.AsyncClient, request: httpx.Request) -> bytes | None:
    origin = _origin(request.url)
    for _ in range(1 + MOST_REDIRECTS):
        response = await client.send(request, stream=True)
        try:
            if response.status_code in _UNKNOWN:
                return None
            if response.next_request is None:
                return await _body(response)
            request = response.next_request
        finally:
            await response.aclose()
        if _origin(request.url) != origin:
            raise ResolverError("the answer is a redirect to another host")
    raise ResolverError(f"more than {MOST_REDIRECTS} redirects")


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


async def _body(response: httpx.Response) -> bytes:
    if response.status_code != httpx.codes.OK:
        raise ResolverError(f"the answer has status {response.status_code}")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MOST_BYTES:
            raise ResolverError(f"the answer has more than {MOST_BYTES} bytes")
    return bytes(body)


def value_at(answer: Any, path: str) -> Any:
    """The value at a path like `product.images.0.url`, None if there is no such place."""
    for step in path.split("."):
        if isinstance(answer, dict):
            answer = answer.get(step)
        elif isinstance(answer, list) and step.isascii() and step.isdecimal() and int(step) < len(answer):
            answer = answer[int(step)]
        else:
            return None
    return answer
