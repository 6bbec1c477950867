"""Routes that resolve the parameters of their endpoints without FastAPI."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI, Request, Security
from fastapi.routing import APIRoute
from fastapi.security import SecurityScopes
from starlette.responses import JSONResponse, Response

from api.app import ROUTERS
from api.web.routes import PlainRoute

resolved: list[str] = []


async def who(request: Request, scopes: SecurityScopes) -> str:
    resolved.append("who")
    request.state.who = request.headers.get("x-who", "nobody")
    return f"{request.state.who} for {' and '.join(scopes.scopes)}"


async def body(request: Request) -> Any:
    resolved.append(f"body of {request.state.who}")
    return await request.json()


Who = Annotated[str, Security(who, scopes=["read", "write"])]
Body = Annotated[Any, Depends(body)]


async def endpoint(caller: Who, content: Body, reason: str = "none") -> Response:
    """Return the resolved parameters."""
    return JSONResponse({"caller": caller, "content": content, "reason": reason}, 201)


async def endpoint_with_path(caller: Who, place: str, often: int, content: Body) -> Response:
    """Return the resolved parameters; FastAPI resolves those of the path and the query."""
    return JSONResponse({"caller": caller, "content": content, "at": [place] * often})


def application(route_class: type[Any]) -> FastAPI:
    router = APIRouter(prefix="/things", route_class=route_class)
    router.post("", status_code=201)(endpoint)
    router.post("/{place}")(endpoint_with_path)
    return FastAPI(routes=router.routes)


@pytest.fixture(autouse=True)
def nothing_resolved() -> None:
    resolved.clear()


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(application(PlainRoute))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
        yield http


async def test_parameters_are_resolved_in_order(http: httpx.AsyncClient) -> None:
    response = await http.post("/things", json=[1], headers={"x-who": "ann"})
    expected = {"caller": "ann for read and write", "content": [1], "reason": "none"}
    assert (response.status_code, response.json()) == (201, expected)
    assert resolved == ["who", "body of ann"]


async def test_query_parameter_is_passed(http: httpx.AsyncClient) -> None:
    assert (await http.post("/things", json=[], params={"reason": "rude"})).json()["reason"] == "rude"


async def test_fastapi_resolves_path_parameters(http: httpx.AsyncClient) -> None:
    response = await http.post("/things/here", json=[1], params={"often": 2})
    assert response.json() == {"caller": "nobody for read and write", "content": [1], "at": ["here", "here"]}
    assert (await http.post("/things/here", json=[1], params={"often": "x"})).status_code == 422


@pytest.mark.parametrize("path", ["/thing", "/other/things", "/things/here/there"])
async def test_other_paths_are_not_found(http: httpx.AsyncClient, path: str) -> None:
    assert (await http.post(path, json=[])).status_code == 404


async def test_other_methods_are_not_allowed(http: httpx.AsyncClient) -> None:
    response = await http.get("/things")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")


async def test_root_path_prefix_is_stripped() -> None:
    transport = httpx.ASGITransport(application(PlainRoute), root_path="/shop")
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
        assert (await http.post("/shop/things", json=[])).status_code == 201


def test_openapi_document_is_unchanged() -> None:
    assert application(PlainRoute).openapi() == application(APIRoute).openapi()


def test_hot_paths_bypass_fastapi() -> None:
    routes = {
        (method, route.path): route
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, PlainRoute)
        for method in route.methods or ()
    }
    for hot in ("/api/customerReviews", "/api/customerReviews/approve", "/api/rating/entityRating"):
        assert routes["POST", hot].is_plain, hot
    assert not routes["GET", "/api/customerReviews/{id}"].is_plain
