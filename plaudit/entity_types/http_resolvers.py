"""Names over HTTP: a URL that contains the id, and the paths of name and image in the JSON of the answer."""

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
from messaging.foreign_answers import read_answer
from plaudit.entity_types.resolvers import resolved_entity

MOST_REQUESTS: Final = 8
"""Maximum number of concurrent requests of a resolver."""

MOST_BYTES: Final = 1024 * 1024
"""Maximum size of an answer in bytes."""

ID: Final = "{id}"

_UNKNOWN: Final = frozenset({httpx.codes.NOT_FOUND, httpx.codes.GONE})
_PATH_STEPS: Final = frozenset({".", ".."})
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class HttpResolver:
    """Requests `url`, which contains `{id}`, for each id; `name` and `image` are paths in the JSON of the answer.

    The id is percent-encoded. An id that a server could decode, however often, into another path is unknown without a
    request; so is one that is answered 404, 410, or without a name. A redirect is an error. `timeout` is in seconds,
    for each request. If some requests fail, PartlyResolvedError holds the other names; if all fail, the first error is
    raised.
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
        # Uncompressed, so that the bytes received are the bytes counted.
        self._headers = {"accept": "application/json", **(headers or {}), "accept-encoding": "identity"}
        self._timeout = timeout
        self._slots = asyncio.Semaphore(MOST_REQUESTS)

    async def __call__(self, ids: Collection[str]) -> Mapping[str, ResolvedEntity]:
        """Names and images by id. Raises ResolverError. Raises PartlyResolvedError: some requests succeeded."""
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
        # Some servers read parameters of a path segment after a semicolon.
        places = (part.replace(ID, plain) for part in re.split("[/?]", self._url) if ID in part)
        steps = (step.partition(";")[0] for place in places for step in re.split(r"[/\\]", place))
        return any(step in _PATH_STEPS for step in steps) or _CONTROL.search(plain) is not None

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return httpx.create_ssl_context()

    async def _entity(self, client: httpx.AsyncClient, id: str) -> ResolvedEntity | None:
        try:
            async with self._slots, asyncio.timeout(self._timeout):
                body = await _read(client, self._url.replace(ID, quote(id, safe="")))
        except TimeoutError:
            raise ResolverError(f"no answer within {self._timeout} s") from None
        except httpx.HTTPError as error:
            # Its text may contain the URL, and that the id.
            raise ResolverError(f"the request failed: {type(error).__name__}") from error
        if body is None:
            return None
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            raise ResolverError("the answer is not JSON") from None
        image = value_at(answer, self._image) if self._image else None
        return resolved_entity(value_at(answer, self._name), image)


async def _read(client: httpx.AsyncClient, url: str) -> bytes | None:
    async with client.stream("GET", url) as response:
        if response.status_code in _UNKNOWN:
            return None
        try:
            return await read_answer(response, MOST_BYTES)
        except ValueError as error:
            raise ResolverError(str(error)) from error


def value_at(answer: Any, path: str) -> Any:
    """The value at a path like `product.images.0.url`; None if the path doesn't exist."""
    for step in path.split("."):
        if isinstance(answer, dict):
            answer = answer.get(step)
        elif isinstance(answer, list) and step.isascii() and step.isdecimal() and int(step) < len(answer):
            answer = answer[int(step)]
        else:
            return None
    return answer
