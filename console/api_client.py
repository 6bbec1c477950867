"""In-process client of the JSON API, with the visitor's credential and address.

A page therefore shows what the same caller would get by HTTP, and can do nothing that they may not do.
"""

import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx
from starlette.requests import Request

from api.web.budgets import NoRoomError, StalledError
from api.web.problems import ProblemError
from api.web.telemetry import within

Json = Any
T = TypeVar("T")
WAIT_S: Final = 5
"""Seconds that a page waits for its command to take effect."""

LONG_WAIT_S: Final = 10
"""Seconds that it waits if its command is about many things."""
_TIMEOUT_S: Final = 40
KEY_REUSED: Final = "idempotency-key-reused"
_IN_OTHER_WORDS: Final = {
    KEY_REUSED: "This form was already sent with other content, which was accepted. Check its result, and send this "
    "only if it should be done as well.",
    "query-timeout": "The database took too long. Try again in a moment; a search is faster with narrower filters.",
    "validation": "This was not accepted. Correct it, and try again.",
}
"""Sentences that replace those of the API, which are about its requests."""
_TOO_LONG: Final = {"title": "Too long", "detail": "A value in this form is too long. Shorten it, and try again."}
_OVERLOADED: Final = frozenset({"query-timeout", "too-many-requests", "unavailable"})
_DOTS: Final = re.compile(r"(?<=/)\.{1,2}(?=/|$)")


@dataclass
class Refused(Exception):  # noqa: N818 - it is an answer
    """A problem that the API answered (RFC 9457)."""

    status: int
    problem: Mapping[str, Any]
    retry_after: str | None = None

    @property
    def kind(self) -> str:
        """The last segment of the problem's type, such as `not-found`."""
        return str(self.problem.get("type", "")).rpartition("/")[2]

    @property
    def detail(self) -> str:
        """The sentence that explains the problem."""
        return _IN_OTHER_WORDS.get(self.kind) or str(self.problem.get("detail") or self.problem.get("title") or "")

    @property
    def errors(self) -> Sequence[Mapping[str, str]]:
        """The errors in the request, each with its JSON pointer."""
        return list(self.problem.get("errors", ()))

    @property
    def results(self) -> Sequence[Mapping[str, Any]]:
        """The outcome of each item of a command, if the problem has them."""
        return list(self.problem.get("results", ()))


async def if_in_time(answer: Awaitable[T], otherwise: T) -> T:
    """The answer, or `otherwise` if the service is overloaded, unavailable or too slow. Raises Refused."""
    try:
        return await answer
    except Refused as refused:
        if refused.kind not in _OVERLOADED:
            raise
        return otherwise


async def settled(answer: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """The answer to a command about several things, also if it took effect on none. Raises Refused."""
    try:
        return await answer
    except Refused as refused:
        if not refused.results:
            raise
        return dict(refused.problem)


def segment(text: str) -> str:
    """A text as one segment of a path."""
    return quote(text, safe="")


def refusal_by(problem: ProblemError) -> Refused:
    """A problem raised by the console itself, as its pages show it."""
    members = {**problem.kind.members, "detail": problem.detail, "errors": problem.errors}
    return Refused(problem.kind.status, members, problem.headers.get("Retry-After"))


class ApiClient:
    """Client of the application's API within a visitor's request; an asynchronous context manager."""

    def __init__(self, request: Request, credential: str | None, client: tuple[str, int]) -> None:
        headers = {"Authorization": f"Bearer {credential}"} if credential else {}
        app = within(request.app, request.scope)
        # A host that is always allowed: that of the visitor's request has been checked before.
        self._http = httpx.AsyncClient(
            transport=httpx.ASGITransport(app, client=client),
            base_url="http://localhost",
            headers=headers,
            timeout=_TIMEOUT_S,
            trust_env=False,
        )

    async def __aenter__(self) -> "ApiClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def ask(self, method: str, path: str, body: Json = None, query: Mapping[str, Any] | None = None) -> Json:
        """Send a query and return its JSON answer, None if it has no body. Raises Refused."""
        return _read(await self._send(method, path, body, query, {}))

    async def find(self, path: str, query: Mapping[str, Any] | None = None) -> Json | None:
        """The JSON answer to a GET; None if there is no such thing, or the visitor may not see it. Raises Refused."""
        try:
            return await self.ask("GET", path, query=query)
        except Refused as refused:
            if refused.status != 404:
                raise
            return None

    async def content(self, path: str, query: Mapping[str, Any] | None = None) -> tuple[bytes, str]:
        """Body and media type of an answer that isn't JSON. Raises Refused."""
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
        """Send a command and return its answer, once it has taken effect or after `wait` seconds. `key`: idempotency
        key of 1 to 255 printable characters. Raises Refused."""
        headers = {"Idempotency-Key": key, "Prefer": f"wait={wait}"}
        return _read(await self._send(method, path, body, query, headers))

    async def _send(
        self, method: str, path: str, body: Json, query: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> httpx.Response:
        parameters = {name: value for name, value in (query or {}).items() if value not in (None, "")}
        # An id of dots is escaped, or it would be resolved as a relative path.
        path = _DOTS.sub(lambda dots: dots[0].replace(".", "%2E"), path)
        try:
            return await self._http.request(method, path, json=body, params=parameters, headers=headers)
        except httpx.InvalidURL as error:  # it has more than 65,536 characters
            raise Refused(422, _TOO_LONG) from error
        except StalledError as error:  # the answer had begun
            raise refusal_by(NoRoomError("Other requests use the memory that this one needs.")) from error


def _read(response: httpx.Response) -> Json:
    content = response.json() if response.content else None
    if response.is_success:
        return content
    raise Refused(response.status_code, content or {}, response.headers.get("retry-after"))
