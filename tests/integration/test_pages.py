"""Documentation pages that load nothing from other hosts."""

import asyncio
import json
import re
import shutil
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from messaging.asyncapi import asyncapi_document
from messaging.topics import Topic, TopicNames
from tests.support.service import Json, Service

ADDRESSES = {"src", "href", "action", "data", "poster", "srcset", "formaction", "background"}
DOCUMENTS = Path(__file__).parents[2] / "docs"


class _Addresses(HTMLParser):
    """Collector of the addresses that a page would load or link to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ADDRESSES]
        self.found += css_addresses(" ".join(value or "" for name, value in attrs if name == "style"))

    def handle_data(self, data: str) -> None:
        self.found += css_addresses(data)


def css_addresses(css: str) -> list[str]:
    """Return the addresses in a style sheet."""
    return re.findall(r"""url\(\s*["']?(.+?)["']?\s*\)""", css) + re.findall(r"""@import\s+["'](.+?)["']""", css)


def addresses_in(page: str) -> list[str]:
    parser = _Addresses()
    parser.feed(page)
    return parser.found


@pytest.mark.parametrize("path", ["/docs", "/asyncapi"])
async def test_pages_name_no_other_host(http: httpx.AsyncClient, path: str) -> None:
    response = await http.get(path)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    found = [address for address in addresses_in(response.text) if not address.startswith(("data:", "#"))]
    assert found
    for address in found:
        assert not urlsplit(address).netloc, address
        loaded = await http.get(urljoin(path, address))
        assert loaded.status_code == 200, address
        if loaded.headers["content-type"].startswith("text/css"):
            assert all(inner.startswith("data:") for inner in css_addresses(loaded.text))
    # The page's own scripts name the document, and no external validator.
    assert "//" not in "".join(re.findall(r"<script>(.*?)</script>", response.text, re.DOTALL))


def test_other_hosts_are_detected() -> None:
    page = '<link href="//cdn.example/a.css"><style>p {background: url("https://b.example/x")}</style>'
    assert addresses_in(page) == ["//cdn.example/a.css", "https://b.example/x"]


async def test_only_files_of_the_page_are_served(http: httpx.AsyncClient) -> None:
    for path in ("/docs/__init__.py", "/docs/nothing.js", "/docs/..%2fmain.py"):
        assert (await http.get(path)).status_code == 404


async def test_page_contains_every_topic_and_message(service: Service, http: httpx.AsyncClient) -> None:
    page = (await http.get("/asyncapi")).text
    assert "<script" not in page
    for topic in Topic:
        assert f'<a href="#{topic}">{service.topic(topic)}</a>' in page
    document: Json = (await http.get("/asyncapi.json")).json()
    for message in document["components"]["messages"]:
        assert f"<h3>{message}</h3>" in page
    for name, schema in document["components"]["schemas"].items():
        assert f'id="{name}"' in page
        assert all(f"<code>{field}</code>" in page for field in schema.get("properties", ()))
    assert "It has no store if <code>storeId</code> is empty or missing." in page
    assert "goes to <code>&lt;topic&gt;.dlq</code>" in page
    known = {f"#{id}" for id in re.findall(r'id="([^"]+)"', page)}
    assert {address for address in addresses_in(page) if address.startswith("#")} <= known


def test_document_in_docs_is_up_to_date() -> None:
    kept = json.loads((DOCUMENTS / "asyncapi.json").read_text())
    assert kept == asyncapi_document(TopicNames("plaudit."), version("plaudit")), "run `make docs`"


class Visit(NamedTuple):
    """The document that a browser built from a page, and the requests that the page caused."""

    dom: str
    requests: list[str]


async def visit(address: str, folder: Path) -> Visit:
    """Open a page in headless Chromium, which can reach only this host."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no `chromium` (`apt-get install chromium`)")
    process = await asyncio.create_subprocess_exec(
        chromium,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        f"--user-data-dir={folder / 'profile'}",
        f"--log-net-log={folder / 'net.json'}",
        "--virtual-time-budget=20000",
        "--dump-dom",
        address,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        dom, _ = await asyncio.wait_for(process.communicate(), 90)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0
    log = json.loads((folder / "net.json").read_text())
    started = log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    events = [event.get("params", {}) for event in log["events"] if event["type"] == started]
    # The browser's own requests have no initiator; they fail at name resolution.
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(address))
    return Visit(dom.decode(), [e["url"] for e in events if e.get("url") == address or e.get("initiator") == origin])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "loads", "shows"),
    [
        (
            "/docs",
            {"/docs", "/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js", "/openapi.json"},
            "/api/customerReviews/approve",
        ),
        ("/asyncapi", {"/asyncapi"}, "CloudEventHeaders"),
    ],
)
async def test_browser_renders_pages_without_other_hosts(
    service: Service, tmp_path: Path, path: str, loads: set[str], shows: str
) -> None:
    seen = await visit(service.address + path, tmp_path)
    assert {request for request in seen.requests if not request.startswith((service.address, "data:"))} == set()
    assert {urlsplit(request).path for request in seen.requests} >= loads
    # As rendered: Swagger UI breaks long paths with a zero-width space.
    assert shows in seen.dom.replace("\u200b", "").replace("<wbr>", "")
