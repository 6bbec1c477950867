"""Errors as the API shows them: problem details (RFC 9457), for everything that can go wrong."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from http import HTTPStatus
from typing import Any, Final

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Scope
from typing_extensions import TypedDict

from api.web.encoded_slashes import path_in_addresses, path_to_match
from api.web.responses import ProblemResponse
from messaging.reading_errors import InputError, input_error

MAX_ERRORS: Final = 100
"""Maximum number of errors that are listed; the detail has their total number."""

_RETRY_AFTER_S: Final = 5


class ItemError(TypedDict):
    """One of the errors in a request; `pointer` (RFC 6901) names its place in the body, or a parameter."""

    pointer: str
    code: str
    message: str


class ProblemKind(Enum):
    """All kinds of problems: name in their `type`, HTTP status, title."""

    MALFORMED_JSON = ("malformed-json", 400, "The body is not JSON")
    MALFORMED_BODY = ("malformed-body", 400, "The body can't be read")
    MALFORMED_PATH = ("malformed-path", 400, "The path can't be decoded")
    UNKNOWN_SORT = ("unknown-sort", 400, "Unknown sort")
    INVALID_HEADER = ("invalid-header", 400, "Invalid header")
    UNAUTHENTICATED = ("unauthenticated", 401, "Authentication required")
    FORBIDDEN = ("forbidden", 403, "Not allowed")
    REFUSED = ("refused", 403, "Refused by the rules of the store")
    NOT_FOUND = ("not-found", 404, "Not found")
    METHOD_NOT_ALLOWED = ("method-not-allowed", 405, "Method not allowed")
    NOT_APPLIED = ("not-applied", 409, "Nothing was applied")
    ID_TAKEN = ("id-taken", 409, "The id is taken")
    TOO_LARGE = ("too-large", 413, "The body is too large")
    UNSUPPORTED_MEDIA_TYPE = ("unsupported-media-type", 415, "Unsupported media type")
    MISDIRECTED = ("misdirected", 421, "Misdirected request")
    VALIDATION = ("validation", 422, "The request is not valid")
    KEY_REUSED = ("idempotency-key-reused", 422, "The Idempotency-Key belongs to another request")
    TOO_MANY_REQUESTS = ("too-many-requests", 429, "Too many requests")
    INTERNAL = ("internal", 500, "Internal error")
    QUERY_TIMEOUT = ("query-timeout", 503, "The query took too long")
    UNAVAILABLE = ("unavailable", 503, "Temporarily unavailable")

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.value[1]

    @property
    def members(self) -> dict[str, Any]:
        """The members that are the same in every problem of this kind."""
        name, status, title = self.value
        return {"type": f"/problems/{name}", "title": title, "status": status}


class ProblemError(Exception):
    """A request that ends with a problem. `extra` adds members to the body."""

    def __init__(
        self,
        kind: ProblemKind,
        detail: str,
        errors: Sequence[ItemError] = (),
        *,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.errors = errors
        self.headers = {**retry_after(kind.status), **(headers or {})}
        self.extra = extra or {}


def retry_after(status: int) -> dict[str, str]:
    """The header of responses that are temporary."""
    return {"Retry-After": str(_RETRY_AFTER_S)} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}


def invalid(errors: Sequence[ItemError], total: int = 0) -> ProblemError:
    """The problem of a request with these errors. `total`: their number, if these are only the first MAX_ERRORS."""
    total = max(total, len(errors))
    many = f"The request has {total} errors" if total > 1 else "The request has an error"
    listed = f"; the first {MAX_ERRORS} are listed" if total > MAX_ERRORS else ""
    return ProblemError(ProblemKind.VALIDATION, f"{many}{listed}.", errors)


def invalid_at(pointer: str, code: str, message: str) -> ProblemError:
    """The problem of a request with this one error."""
    return invalid([{"pointer": pointer, "code": code, "message": message}])


def nothing_accepted(kind: ProblemKind, errors: Sequence[ItemError]) -> ProblemError:
    """The problem of a request that is refused as a whole because of these errors; its detail has the first one."""
    return ProblemError(kind, f"{errors[0]['message'].removesuffix('.')}. Nothing was accepted.", errors)


def unavailable(what: str, extra: Mapping[str, Any] | None = None) -> ProblemError:
    """The problem of a request that needs a server that is unavailable."""
    return ProblemError(ProblemKind.UNAVAILABLE, f"{what} can't be reached at the moment. Try again.", extra=extra)


def not_found(what: str) -> ProblemError:
    """The problem of a request for something that doesn't exist, or not for this caller."""
    return ProblemError(ProblemKind.NOT_FOUND, f"There is no {what} with this id.")


def problem_response(scope: Scope, problem: ProblemError) -> ProblemResponse:
    """The response for a problem."""
    body = {**problem.kind.members, "detail": problem.detail, "instance": path_in_addresses(scope), **problem.extra}
    if problem.errors:
        body["errors"] = problem.errors[:MAX_ERRORS]
    return ProblemResponse(body, problem.kind.status, problem.headers)


async def on_problem(request: Request, error: Exception) -> ProblemResponse:
    """Respond to a problem that an endpoint raised."""
    assert isinstance(error, ProblemError)  # noqa: S101 - registered for these alone
    if error.kind is ProblemKind.NOT_FOUND and (methods := _exact_methods(request)) and request.method not in methods:
        # The path of another route was taken for one with an id.
        error = _method_not_allowed(request, methods)
    return problem_response(request.scope, error)


async def on_http_error(request: Request, error: Exception) -> ProblemResponse:
    """Respond to errors of the framework: no such path, no such method."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for these alone
    match error.status_code:
        case 404:
            problem = ProblemError(
                ProblemKind.NOT_FOUND, "There is nothing at this path. See /docs for the available paths."
            )
        case 405:
            problem = _method_not_allowed(request, _exact_methods(request) or _methods_at(request))
        case status:
            title = HTTPStatus(status).phrase
            body = {"type": "about:blank", "title": title, "status": status, "detail": error.detail}
            return ProblemResponse(body | {"instance": path_in_addresses(request.scope)}, status, error.headers)
    return problem_response(request.scope, problem)


async def on_invalid_parameters(request: Request, error: Exception) -> ProblemResponse:
    """Respond to invalid parameters in the path or the query."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for these alone
    # Each location begins with `path` or `query`.
    errors = [input_error({**each, "loc": each["loc"][1:]}) for each in error.errors()]
    return problem_response(request.scope, invalid([item_error(each) for each in errors]))


def item_error(error: InputError) -> ItemError:
    """An error in a value or a parameter as the API shows it."""
    return {"pointer": error.pointer, "code": error.code, "message": error.message}


def _method_not_allowed(request: Request, methods: Collection[str]) -> ProblemError:
    possible = ", ".join(sorted(methods))
    detail = f"{request.method[:32]} is not allowed here; allowed: {possible}."
    return ProblemError(ProblemKind.METHOD_NOT_ALLOWED, detail, headers={"Allow": possible})


def _exact_methods(request: Request) -> set[str]:
    """The methods of the routes with exactly this path, where no part of it is an id."""
    path = path_to_match(request.scope)
    return _methods_of(route for route in _routes(request) if route.path == path)


def _methods_at(request: Request) -> set[str]:
    path = path_to_match(request.scope)
    return _methods_of(route for route in _routes(request) if route.path_regex.match(path))


def _routes(request: Request) -> Iterator[Route]:
    return (route for route in request.app.routes if isinstance(route, Route))


def _methods_of(routes: Iterable[Route]) -> set[str]:
    found = {method for route in routes for method in route.methods or ()}
    # HEAD is handled as GET before it is routed.
    return found | {"HEAD"} if "GET" in found else found
