"""The JSON interface as the console asks it: in this process, with the visitor's credential and address.

So a page shows what the same caller would get by HTTP, and does nothing that he may not.
"""

import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, TypeVar

import httpx
from starlette.requests import Request

from api.web.problems import ProblemError
from api.web.telemetry import within

Json = Any
T = TypeVar("T")
WAIT_S: Final = 5
"""For so long a page waits until its command has taken effect."""
_TIMEOUT_S: Final = 40
KEY_REUSED: Final = "idempotency-key-reused"
_SENT_BEFORE: Final = (
    "This form was sent before with something else in it, and that was accepted. Look at what came of it; send this "
    "only if it is to be done as well."
)
_TOO_MUCH: Final = frozenset({"query-timeout", "too-many-requests", "unavailable"})
_DOTS: Final = re.compile(r"(?<=/)\.{1,2}(?=/|$)")


@dataclass
class Refused(Exception):  # noqa: N818 - it is an answer
    """The problem that the interface answered with (RFC 9457)."""

    status: int
    problem: Mapping[str, Any]
    retry_after: str | None = None

    @property
    def kind(self) -> str:
        """The last part of its type, as `not-found`."""
        return str(self.problem.get("type", "")).rpartition("/")[2]

    @property
    def detail(self) -> str:
        """The sentence that says what is wrong."""
        if self.kind == KEY_REUSED:
            return _SENT_BEFORE
        return str(self.problem.get("detail") or self.problem.get("title") or "")

    @property
    def errors(self) -> Sequence[Mapping[str, str]]:
        """The things that are wrong with a request, by pointer."""
        return list(self.problem.get("errors", ()))

    @property
    def results(self) -> Sequence[Mapping[str, Any]]:
        """The outcome of each item of a command, where the problem tells it."""
        return list(self.problem.get("results", ()))


async def if_in_time(answer: Awaitable[T], otherwise: T) -> T:
    """An answer, or another one where the service has no time for it. Raises Refused."""
    try:
        return await answer
    except Refused as refused:
        if refused.kind not in _TOO_MUCH:
            raise
        return otherwise


def refusal_by(problem: ProblemError) -> Refused:
    """A problem that the console came upon by itself, as its pages tell it."""
    told = {**problem.kind.members, "detail": problem.detail}
    return Refused(problem.kind.status, told, problem.headers.get("Retry-After"))


class Facade:
    """The interface of the application, asked as a part of a visitor's request; to be used in a block."""

    def __init__(self, request: Request, credential: str | None, client: tuple[str, int]) -> None:
        headers = {"Authorization": f"Bearer {credential}"} if credential else {}
        app = within(request.app, request.scope)
        # The name of this machine: hosts that the service doesn't go by were refused before.
        self._http = httpx.AsyncClient(
            transport=httpx.ASGITransport(app, raise_app_exceptions=False, client=client),
            base_url="http://localhost",
            headers=headers,
            timeout=_TIMEOUT_S,
            trust_env=False,
        )

    async def __aenter__(self) -> "Facade":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def ask(self, method: str, path: str, body: Json = None, query: Mapping[str, Any] | None = None) -> Json:
        """The answer to a query: JSON, None where it has no body. Raises Refused."""
        return _read(await self._send(method, path, body, query, {}))

    async def content(self, path: str, query: Mapping[str, Any] | None = None) -> tuple[bytes, str]:
        """An answer that isn't JSON, and its media type. Raises Refused."""
        response = await self._send("GET", path, None, query, {})
        if not response.is_success:
            _read(response)
        return response.content, response.headers["content-type"]

    async def command(
        self,
        method: str,
        path: str,
        body: Json = None,
        query: Mapping[str, Any] | None = None,
        *,
        key: str,
        wait: int = WAIT_S,
    ) -> Json:
        """The answer to a command, once it has taken effect or `wait` seconds are over. `key` (1 to 255 printable
        characters) makes a repeat change nothing. Raises Refused."""
        headers = {"Idempotency-Key": key, **({"Prefer": f"wait={wait}"} if wait else {})}
        return _read(await self._send(method, path, body, query, headers))

    async def _send(
        self, method: str, path: str, body: Json, query: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> httpx.Response:
        given = {name: value for name, value in (query or {}).items() if value not in (None, "")}
        # An id of dots is a part of the address as any other, and leads nowhere else.
        path = _DOTS.sub(lambda dots: dots[0].replace(".", "%2E"), path)
        if body is None:
            return await self._http.request(method, path, params=given, headers=headers)
        return await self._http.request(method, path, json=body, params=given, headers=headers)


def _read(response: httpx.Response) -> Json:
    content = response.json() if response.content else None
    if response.is_success:
        return content
    raise Refused(response.status_code, content or {}, response.headers.get("retry-after"))
