"""The storefront's middleware: answers from the cache, and CORS for the origins of a store."""

from collections.abc import Collection
from typing import Final, NamedTuple

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.auth import permissions
from api.services import Services
from api.web.bodies import has_body
from api.web.concurrency import SMALL
from api.web.encoded_slashes import path_to_match, without_stand_ins
from api.web.hygiene import HostNames, with_headers
from api.web.middleware import LastResort
from api.web.problems import ProblemError, problem_response
from api.web.telemetry import RequestTelemetry
from messaging.metrics import HTTP_REQUESTS
from storefront.answers import Answers
from storefront.responses import CachedResponse, request_target

PREFIX: Final = "/storefront/v1/"
OF_STORE: Final = PREFIX + "{storeId}"
OF_OBJECT: Final = OF_STORE + "/{entityType}/{entityId}"
_ORIGINS: Final = "plaudit.storefront_origins"
_HITS: Final = {status: HTTP_REQUESTS.labels("GET", "storefront-cache", f"{status // 100}xx") for status in (200, 304)}
_PREFLIGHT_S: Final = "600"
_STATUSES_BEFORE_STORE: Final = frozenset({400, 405, 413, 422, 429, 503})
"""Statuses that pages of any origin may read before the store is looked up: they disclose nothing about it."""


class _Named(NamedTuple):
    """A route in the metrics."""

    path: str


_PREFLIGHTS: Final = _Named("storefront-preflight")


class StorefrontMiddleware:
    """Answers requests for the storefront from the cache, else passes them on, and sets the CORS headers.

    It comes before all other middleware: cached answers are the same for everybody, and small ones cost next to
    nothing. Requests for large ones are passed on, too, and answered from the cache by `cached`: their bytes count
    until the client has read them. So are requests with a body, or under names that aren't the service's, which are
    refused inside.
    """

    def __init__(self, app: ASGIApp, services: Services, answers: Answers, names: HostNames) -> None:
        self._app = app
        self._services = services
        self._answers = answers
        self._names = names
        self._preflights = RequestTelemetry(LastResort(self._preflight))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        is_ours = scope["type"] == "http" and scope["path"].startswith(PREFIX)
        if not (is_ours and self._names.have_host_of(scope)):
            await self._app(scope, receive, send)
            return
        method = scope["method"]
        if (method == "GET" or method == "HEAD") and not has_body(scope):
            answer = self._answers.fresh(request_target(scope))
            if answer is not None and (response := CachedResponse(answer)).size_for(scope) <= SMALL:
                await response(scope, receive, with_headers(scope, send))
                _HITS[response.status_of(scope)].inc()
                return
        origin = Headers(scope=scope).get("origin")
        if origin is None:
            await self._app(scope, receive, send)
        elif method == "OPTIONS":
            # They look up stores, and come here before the telemetry of other requests.
            await self._preflights({**scope, "route": _PREFLIGHTS}, receive, with_headers(scope, send))
        else:
            await self._app(scope, receive, _with_cors(scope, origin, send))

    async def _preflight(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        try:
            request.app.state.rate_limit.take(permissions.client_address(request))
            response = await self._preflight_response(scope, request.headers["origin"])
        except ProblemError as problem:
            response = problem_response(scope, problem)
        await response(scope, receive, send)

    async def _preflight_response(self, scope: Scope, origin: str) -> Response:
        """The response to a CORS preflight request."""
        store_id = without_stand_ins(path_to_match(scope)[len(PREFIX) :].split("/", 1)[0])
        store = (await self._services.lookups.stores_for_rules([store_id])).get(store_id)
        if store is None or origin not in store.settings.storefront_origins:
            return Response(status_code=403, headers={"Vary": "Origin"})
        return Response(
            status_code=204,
            headers={
                "Access-Control-Allow-Origin": origin,
                "Access-Control-Allow-Methods": "GET, POST, DELETE",
                "Access-Control-Allow-Headers": "Content-Type, Idempotency-Key, Prefer",
                "Access-Control-Max-Age": _PREFLIGHT_S,
                "Vary": "Origin",
            },
        )


def allow(request: Request, origins: Collection[str]) -> None:
    """Let pages of these origins read the response, also if it is a problem."""
    request.scope[_ORIGINS] = origins


def _with_cors(scope: Scope, origin: str, send: Send) -> Send:
    def is_allowed(status: int) -> bool:
        return origin in scope[_ORIGINS] if _ORIGINS in scope else status in _STATUSES_BEFORE_STORE

    async def with_origin(message: Message) -> None:
        if message["type"] == "http.response.start" and is_allowed(message["status"]):
            message["headers"] = [
                *(each for each in message["headers"] if each[0] != b"access-control-allow-origin"),
                (b"access-control-allow-origin", origin.encode("latin-1")),
                (b"access-control-expose-headers", b"Preference-Applied, Retry-After"),
            ]
            if not any(name == b"vary" for name, _ in message["headers"]):
                message["headers"].append((b"vary", b"Origin"))
        await send(message)

    return with_origin
