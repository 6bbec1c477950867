"""Telemetry of requests: the routes by which they are counted, and the times that are measured."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from api.web.encoded_slashes import EncodedSlashes
from api.web.routes import FolderRoute, PageRoute
from console import static_files
from console.app import add_console
from console.queue_news import News, QueueNews
from messaging.metrics import REGISTRY
from storefront.app import add_storefront
from tests.support.app import app_without_servers, client_of

Counts = Mapping[tuple[str, str], float]


class ShortNews(QueueNews):
    """News of which there are none; a page hears so once."""

    def __init__(self) -> None:
        pass

    async def news(self, *_: Any) -> AsyncIterator[News | None]:
        yield None


@pytest.fixture
async def app() -> AsyncIterator[FastAPI]:
    """The facade with the console and the storefront."""
    async with app_without_servers() as app:
        add_storefront(app)
        add_console(app, queue_news=ShortNews())
        yield app


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app) as http:
        yield http


def samples(name: str) -> Counts:
    """The samples of a metric by method and route, whatever the status."""
    found: dict[tuple[str, str], float] = {}
    for sample in (sample for metric in REGISTRY.collect() for sample in metric.samples):
        if sample.name == name:
            key = (sample.labels["method"], sample.labels["route"])
            found[key] = found.get(key, 0) + sample.value
    return found


def more(after: Counts, before: Counts) -> dict[tuple[str, str], float]:
    """The difference, without what stayed as it was."""
    return {key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)}


COUNTED, MEASURED = "plaudit_http_requests_total", "plaudit_http_request_seconds_count"


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/console/reviews/some-id", "/console/reviews/{id}"),
        ("/console/nowhere/at/all", "/console/{rest:path}"),
        (f"{static_files.PREFIX}/console.js", "/console/static/{version}"),
        ("/console/sign-in", "/console/{rest:path}"),
        ("/storefront/v1/plaudit-stars.js", "/storefront/v1/plaudit-stars.js"),
        ("/demo/no-such-product", "/demo/{product}"),
        ("/demo/static/nothing", "/demo/static"),
        ("/nowhere", "none"),
    ],
)
async def test_pages_and_files_are_counted_by_their_routes(http: httpx.AsyncClient, path: str, route: str) -> None:
    before = samples(COUNTED)
    await http.get(path)
    counted = more(samples(COUNTED), before)
    assert counted.pop(("GET", route)) == 1
    assert "none" not in {route for _, route in counted}


def test_all_routes_name_themselves(app: FastAPI) -> None:
    def is_told(route: BaseRoute) -> bool:
        return isinstance(route, APIRoute | PageRoute | FolderRoute | EncodedSlashes)

    # The one that FastAPI itself adds.
    assert [getattr(route, "path", "?") for route in app.routes if not is_told(route)] == ["/openapi.json"]


async def test_streams_are_counted_and_not_measured(http: httpx.AsyncClient) -> None:
    page, stream = ("GET", "/console/queue"), ("GET", "/console/queue/news")
    counted, measured = samples(COUNTED), samples(MEASURED)
    await http.get(page[1])
    told = await http.get(stream[1])
    assert told.headers["content-type"].startswith("text/event-stream")
    assert {page, stream} <= more(samples(COUNTED), counted).keys()
    times = more(samples(MEASURED), measured)
    assert page in times
    assert stream not in times
