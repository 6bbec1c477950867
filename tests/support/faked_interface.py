"""A console on a fake API with canned responses, which records the requests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Final

import httpx
import orjson
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse

from api.auth.authentication import Nobody
from api.reviews.rows import review_details
from api.web.limits import RateLimit
from console.app import add_console
from domain.permissions import Caller, Permission, known_permissions
from domain.ratings import Entity
from domain.reviews import Review
from tests.support.app import client_of
from tests.support.guarded import OpenDoor

EVERYTHING: Final = [each.value for each in Permission]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to the API: its path without `/api/`, and its JSON body, None without one."""

    method: str
    path: str
    query: dict[str, str]
    body: Any


Answer = tuple[int, Any] | Callable[[Asked], tuple[int, Any]]


class _Everyone(Nobody):
    """Takes everybody for one visitor."""

    def __init__(self, visitor: Caller) -> None:
        self._visitor = visitor

    async def caller(self, credential: str | None) -> Caller:
        return self._visitor


def faked(
    permissions: Sequence[str],
    answers: dict[str, Any],
    asked: list[Asked] | None = None,
    stores: list[str] | None = None,
) -> FastAPI:
    """A console for a visitor with these permissions on an API with these responses by path.

    A response is a status and a body, or a function of the request. Requests are appended to `asked`.
    """
    app = FastAPI()
    visitor = Caller("anna", known_permissions(permissions), None if stores is None else frozenset(stores))
    app.state.services = SimpleNamespace(authenticator=_Everyone(visitor))
    app.state.rate_limit = RateLimit()

    @app.api_route("/api/{path:path}", methods=["GET", "POST", "PUT", "DELETE"])
    async def answer(path: str, request: Request) -> JSONResponse:
        content = await request.body()
        question = Asked(request.method, path, dict(request.query_params), orjson.loads(content) if content else None)
        if asked is not None:
            asked.append(question)
        given: Answer = answers.get(path, (404, {}))
        status, body = given(question) if callable(given) else given
        return JSONResponse(body, status)

    add_console(app, OpenDoor())
    return app


async def get_page(
    path: str, answers: dict[str, Any], permissions: Sequence[str] = EVERYTHING, **query: str
) -> httpx.Response:
    """A page of such a console."""
    async with client_of(faked(permissions, answers)) as http:
        return await http.get(path, params=query or None)


async def post_form(path: str, form: dict[str, Any], answers: dict[str, Any]) -> httpx.Response:
    """The response of such a console to a form."""
    async with client_of(faked(EVERYTHING, answers)) as http:
        return await http.post(path, data=form)


_AT: Final = datetime(2026, 11, 25, tzinfo=UTC)
ROW: Final[dict[str, Any]] = {
    **review_details(Review("r", Entity("Product", "1"), None, None, "u", "Ann", None, "Good", 400, _AT, _AT), {})
}
"""A complete row of a list of reviews."""
