"""The storefront's middleware: answers from the cache, and CORS for the origins of a store."""

from collections.abc import Collection
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.auth import permissions
from api.services import Services
from api.web.concurrency import SMALL
from api.web.encoded_slashes import path_to_match, with_slashes
from api.web.hygiene import HostNames, with_headers
from api.web.middleware import LastResort
from api.web.problems import ProblemError, problem_response
from messaging.metrics import HTTP_REQUESTS
from storefront.answers import Answer, Answers, Load

PREFIX: Final = "/storefront/v1/"
OF_OBJECT: Final = PREFIX + "{storeId}/{entityType}/{entityId}"
_ORIGINS: Final = "plaudit.storefront_origins"
_CACHE: Final = b"public, max-age=60, stale-while-revalidate=600"
_VARY: Final = b"Origin, Accept-Encoding"
_HITS: Final = {status: HTTP_REQUESTS.labels("GET", "storefront-cache", f"{status // 100}xx") for status in (200, 304)}
_PREFLIGHT_S: Final = "600"
_STATUSES_BEFORE_STORE: Final = frozenset({413, 429, 503})
"""Statuses that pages of any origin may read before the store is looked up: they disclose nothing about it."""


class StorefrontDoor:
    """Answers requests for the storefront from the cache, else passes them on, and sets the CORS headers.

    It comes before all other middleware: cached answers are the same for everybody, and small ones cost next to
    nothing. Requests for large ones are passed on, too, and answered from the cache by `kept`: their bytes count until
    the client has read them. So are requests under names that aren't the service's, which are refused inside.
    """

    def __init__(self, app: ASGIApp, services: Services, answers: Answers, names: HostNames) -> None:
        self._app = app
        self._services = services
        self._answers = answers
        self._names = names
        self._preflights = LastResort(self._preflight)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        is_ours = scope["type"] == "http" and scope["path"].startswith(PREFIX)
        if not (is_ours and self._names.have_host_of(scope)):
            await self._app(scope, receive, send)
            return
        method = scope["method"]
        if method == "GET" or method == "HEAD":
            answer = self._answers.fresh(request_target(scope))
            if answer is not None and (response := KeptResponse(answer)).size_for(scope) <= SMALL:
                await response(scope, receive, with_headers(scope, send))
                _HITS[response.status_of(scope)].inc()
                return
        origin = Headers(scope=scope).get("origin")
        if origin is None:
            await self._app(scope, receive, send)
        elif method == "OPTIONS":
            await self._preflights(scope, receive, with_headers(scope, send))
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
        store_id = with_slashes(path_to_match(scope)[len(PREFIX) :].split("/", 1)[0])
        store = (await self._services.lookups.stores_for_commands([store_id])).get(store_id)
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


def request_target(scope: Scope) -> bytes:
    """The path and the query as they were sent: the cache key of an answer."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return path + b"?" + query if query else path


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


class KeptResponse(Response):
    """A cacheable answer, or 304 if the client has it."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        super().__init__()

    def status_of(self, scope: Scope) -> int:
        """The status for this request: 200 or 304."""
        return 304 if has_it(_header(scope, b"if-none-match"), self.answer.digest) else 200

    def size_for(self, scope: Scope) -> int:
        """The bytes of the body that this request gets."""
        return len(self._sent_body(scope, self._form_for(scope)[0]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, gzipped if the client accepts that."""
        answer = self.answer
        body, suffix, encoding = self._form_for(scope)
        headers = [
            (b"etag", f'"{answer.digest}{suffix}"'.encode()),
            (b"cache-control", _CACHE),
            (b"vary", _VARY),
            (b"x-content-type-options", b"nosniff"),
            (b"cross-origin-resource-policy", b"cross-origin"),
        ]
        origin = _header(scope, b"origin")
        if origin and origin in answer.origins:
            headers.append((b"access-control-allow-origin", origin.encode("latin-1")))
        status = self.status_of(scope)
        if status == 200:
            headers += [
                (b"content-type", answer.media_type.encode()),
                (b"content-length", str(len(body)).encode()),
                *encoding,
            ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": self._sent_body(scope, body)})

    def _form_for(self, scope: Scope) -> tuple[bytes, str, list[tuple[bytes, bytes]]]:
        """The body in the encoding for this request, with the suffix of its tag and the header for it."""
        answer = self.answer
        if answer.compressed is not None and takes_gzip(_header(scope, b"accept-encoding")):
            return answer.compressed, "-gzip", [(b"content-encoding", b"gzip")]
        return answer.body, "", []

    def _sent_body(self, scope: Scope, body: bytes) -> bytes:
        return body if scope["method"] != "HEAD" and self.status_of(scope) == 200 else b""


async def kept(request: Request, load: Load) -> KeptResponse:
    """The response to this request: from the cache, else by `load`. Raises what that raises."""
    answers: Answers = request.app.state.storefront_answers
    return KeptResponse(await answers.of(request_target(request.scope), load))


def has_it(if_none_match: str, tag: str) -> bool:
    """True if `If-None-Match` has this tag, also weak, with a suffix or among others, or is `*`: RFC 9110, section
    13.1.2."""
    return tag in if_none_match or if_none_match.strip() == "*"


def takes_gzip(accept_encoding: str) -> bool:
    """True if `Accept-Encoding` names gzip, with a weight other than 0: RFC 9110, section 12.5.3."""
    for part in accept_encoding.lower().split(","):
        name, *parameters = (each.strip() for each in part.split(";"))
        if name == "gzip":
            return not any(_is_zero(each) for each in parameters)
    return False


def _is_zero(parameter: str) -> bool:
    name, _, weight = parameter.partition("=")
    return name.strip() == "q" and weight.strip().rstrip("0").rstrip(".") in ("", "0")


def _header(scope: Scope, wanted: bytes) -> str:
    for name, value in scope["headers"]:
        if name == wanted:
            text: str = value.decode("latin-1")
            return text
    return ""
