"""Routes of the API, which resolve the parameters of an endpoint themselves if these take only the request; and routes
of pages and files.

FastAPI's own solver handles every kind of dependency, at 1.25 to 1.45 times the CPU time for a request
(docs/decisions/0021-own-routes-and-bounded-connections.md). The signatures of endpoints, and with them the OpenAPI
document, are the same for both.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import iscoroutinefunction, signature
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security import SecurityScopes
from starlette.responses import Response
from starlette.routing import Mount, Route, request_response
from starlette.types import ASGIApp, Receive, Scope, Send

from api.web.ignored import with_ignored_header
from api.web.openapi import problems
from api.web.problems import ProblemKind
from api.web.queries import Parameter, query_parameters, understand_query


class _Parameter(NamedTuple):
    """A parameter of an endpoint: the dependency that gives its value, and the arguments of that."""

    name: str
    call: Callable[..., Awaitable[Any]]
    request_name: str
    fixed: dict[str, Any]


class PlainRoute(APIRoute):
    """A route for endpoints whose dependencies are coroutines of the request (and of security scopes) and nothing else.

    They are resolved in the order of the signature. FastAPI serves all other endpoints as usual, and every request with
    a query; `is_plain` is false for the former. A dependency can add to the document of its routes by its `openapi`.
    Query parameters must be known, and the response names ignored fields.
    """

    is_plain: bool

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        for needed in self.dependant.dependencies:
            self.openapi_extra = _merged(getattr(needed.call, "openapi", {}), self.openapi_extra or {})
        parameters = _parameters(self.dependant) if iscoroutinefunction(endpoint) else None
        self.is_plain = parameters is not None
        plain = self.app if parameters is None else request_response(_handler(endpoint, parameters))
        self.app = with_ignored_header(_plain_without_query(plain, self.app, query_parameters(self.dependant)))


class PageRoute(Route):
    """A route of a page or a file. It puts itself into the scope, as FastAPI's routes do, for telemetry."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that matches this route."""
        scope["route"] = self
        await super().handle(scope, receive, send)


class FolderRoute(Mount):
    """A folder of files, which puts itself into the scope likewise: its files count as one route."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request for one of the files."""
        scope["route"] = self
        await super().handle(scope, receive, send)


def routes(
    prefix: str, tag: str, *kinds: ProblemKind, also: dict[int | str, dict[str, Any]] | None = None
) -> APIRouter:
    """A router of plain routes, all of which can end with these problems, and with the responses of `also`. It needn't
    list the problems that `openapi_document` adds."""
    responses = {**(also or {}), **problems(*kinds)}
    return APIRouter(route_class=PlainRoute, prefix=prefix, tags=[tag], responses=responses)


def _merged(added: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    parameters = [*document.get("parameters", ()), *added.get("parameters", ())]
    return {**added, **document} | ({"parameters": parameters} if parameters else {})


def _plain_without_query(plain: ASGIApp, usual: ASGIApp, known: Mapping[str, Parameter]) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        query = scope["query_string"]
        if query:
            understand_query(scope, known)
        await (usual if query else plain)(scope, receive, send)

    return app


def _handler(
    endpoint: Callable[..., Awaitable[Response]], parameters: Sequence[_Parameter]
) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        values = {
            name: await call(**{request_name: request}, **fixed) for name, call, request_name, fixed in parameters
        }
        return await endpoint(**values)

    return handle


def _parameters(endpoint: Dependant) -> Sequence[_Parameter] | None:
    """The parameters of an endpoint; None if one is of another kind, or one of the query has no default."""
    if any(parameter.field_info.is_required() for parameter in endpoint.query_params):
        return None
    if _parameter_count(endpoint) != len(endpoint.dependencies) + len(endpoint.query_params):
        return None
    parameters = []
    for needed in endpoint.dependencies:
        if needed.name is None or needed.call is None or needed.request_param_name is None:
            return None
        scopes = needed.security_scopes_param_name
        if _parameter_count(needed) != (2 if scopes else 1):
            return None
        fixed = {scopes: SecurityScopes(needed.own_oauth_scopes)} if scopes else {}
        parameters.append(_Parameter(needed.name, needed.call, needed.request_param_name, fixed))
    return parameters


def _parameter_count(called: Dependant) -> int:
    return len(signature(called.call).parameters) if called.call else 0
