"""Telemetry of requests: counts by route, and response times."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from api.web.concurrency import LaterResponse
from api.web.encoded_slashes import EncodedSlashes
from api.web.routes import FolderRoute, PageRoute
from console import static_files
from console.api_client import ApiClient
from console.app import add_console
from console.queue_news import News, QueueNews
from messaging.kafka.tail import Tail
from messaging.metrics import REGISTRY
from storefront.app import add_storefront
from tests.support.app import app_without_servers, client_of
from tests.support.guarded import OpenDoor

Counts = Mapping[tuple[str, str], float]
COUNTED, MEASURED = "plaudit_http_requests_total", "plaudit_http_request_seconds_count"


class ShortNews(QueueNews):
    """A news source without news: a stream gets one None and ends."""

    def __init__(self) -> None:
        super().__init__(cast(Tail, None))

    async def news(self, *_: Any) -> AsyncIterator[News | None]:
        yield None


@pytest.fixture
async def app() -> AsyncIterator[FastAPI]:
    """The facade with the console and the storefront."""
    async with app_without_servers() as app:
        add_storefront(app)
        add_console(app, OpenDoor(), queue_news=ShortNews())
        yield app


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app) as http:
        yield http


def samples(name: str) -> Counts:
    """The samples of a metric by method and route, summed over all statuses."""
    found: dict[tuple[str, str], float] = {}
    for sample in (sample for metric in REGISTRY.collect() for sample in metric.samples):
        if sample.name == name:
            key = (sample.labels["method"], sample.labels["route"])
            found[key] = found.get(key, 0) + sample.value
    return found


def increases(after: Counts, before: Counts) -> dict[tuple[str, str], float]:
    """The increases, without unchanged samples."""
    return {key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)}


def failures() -> float:
    """The number of requests that were answered with 5xx."""
    found = (sample for metric in REGISTRY.collect() for sample in metric.samples if sample.name == COUNTED)
    return sum(sample.value for sample in found if sample.labels["status"] == "5xx")


def responses() -> float:
    """The number of responses with a measured time."""
    return REGISTRY.get_sample_value("plaudit_http_response_seconds_count") or 0.0


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/console/reviews/some-id", "/console/reviews/{id}"),
        ("/console/nowhere/at/all", "/console/{rest:path}"),
        (f"{static_files.PREFIX}/console.js", "/console/static/{version}"),
        ("/console/sign-in", "/console/{rest:path}"),
        ("/openapi.json", "/openapi.json"),
        ("/storefront/v1/plaudit-stars.js", "/storefront/v1/plaudit-stars.js"),
        ("/demo/no-such-product", "/demo/{product}"),
        ("/demo/static/nothing", "/demo/static"),
        ("/nowhere", "none"),
        ("/api/customerReviews/x%2Fy", "/api/customerReviews/{id}"),
        ("/api/customerReviews/x%2Fy/nothing", "none"),
    ],
)
async def test_requests_are_counted_by_route(http: httpx.AsyncClient, path: str, route: str) -> None:
    before = samples(COUNTED)
    await http.get(path)
    assert increases(samples(COUNTED), before) == {("GET", route): 1}


@pytest.mark.parametrize("method", ["DELETE", "PURGE"])
async def test_refused_methods_are_counted_together(http: httpx.AsyncClient, method: str) -> None:
    before = samples(COUNTED)
    assert (await http.request(method, "/api/stores")).status_code == 405
    assert increases(samples(COUNTED), before) == {("other", "/api/stores"): 1}


def test_all_routes_have_names(app: FastAPI) -> None:
    def has_route_name(route: BaseRoute) -> bool:
        return isinstance(route, APIRoute | PageRoute | FolderRoute | EncodedSlashes)

    assert [getattr(route, "path", "?") for route in app.routes if not has_route_name(route)] == []


async def test_streams_are_counted_but_not_timed(http: httpx.AsyncClient) -> None:
    page, stream = ("GET", "/console/queue"), ("GET", "/console/queue/news")
    counted, measured = samples(COUNTED), samples(MEASURED)
    await http.get(page[1])
    response = await http.get(stream[1])
    assert response.headers["content-type"].startswith("text/event-stream")
    assert increases(samples(COUNTED), counted) == {page: 1, stream: 1}
    assert increases(samples(MEASURED), measured) == {page: 1}


@pytest.mark.parametrize("store", ["some-store", "another/"])
async def test_preflights_of_storefront_are_counted_and_timed_together(http: httpx.AsyncClient, store: str) -> None:
    counted, measured, failed = samples(COUNTED), samples(MEASURED), failures()
    headers = {"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}
    assert (await http.options(f"/storefront/v1/{store}/summaries", headers=headers)).status_code == 503
    assert increases(samples(COUNTED), counted) == {("OPTIONS", "storefront-preflight"): 1}
    assert increases(samples(MEASURED), measured) == {("OPTIONS", "storefront-preflight"): 1}
    assert failures() == failed + 1


async def test_failed_page_is_counted_once(http: httpx.AsyncClient) -> None:
    before = failures()
    assert (await http.get("/console/queue")).status_code == 503
    assert failures() == before + 1


async def later(request: Request) -> Response:
    """A response that is computed later."""

    async def coming() -> Response:
        return JSONResponse({})

    return LaterResponse(coming)


async def asks(request: Request) -> Response:
    """A page that requests the path in its parameter `of`."""
    async with ApiClient(request, None, ("", 0)) as facade:
        return JSONResponse(await facade.ask("GET", request.query_params["of"]))


@pytest.mark.parametrize(
    ("path", "is_measured"),
    [("/later", False), ("/asks?of=/later", False), ("/asks?of=/api/me", True), ("/api/me", True)],
)
async def test_waiting_responses_are_not_timed(
    app: FastAPI, http: httpx.AsyncClient, path: str, is_measured: bool
) -> None:
    app.router.routes.insert(0, PageRoute("/later", later))
    app.router.routes.insert(0, PageRoute("/asks", asks))
    before = responses()
    assert (await http.get(path, headers={"Prefer": "wait=5"})).status_code == 200
    assert responses() == before + is_measured
