"""The Python client example, run against a running service."""

import asyncio
import runpy
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.documents import ROOT
from tests.support.facade import Facade, new_id, submission
from tests.support.service import Service

pytestmark = pytest.mark.long

EXAMPLE = ROOT / "clients" / "python" / "example.py"

WHEN = {"busy": "0", "for long": "361", "until then": "Wed, 21 Oct 2026 07:28:00 GMT"}
"""Values of `Retry-After` from a service or a proxy in front of it."""


class RecordingTransport(httpx.BaseTransport):
    """Forwards requests and records the status codes of their responses.

    The first requests fail instead: with a connection error ("nobody"), or with a 503 although the service took them.
    """

    def __init__(self, *first: str) -> None:
        self._real = httpx.HTTPTransport()
        self._first = list(first)
        self.statuses: list[int] = []
        self.keys: set[str] = set()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.keys |= {request.headers["idempotency-key"]} if "idempotency-key" in request.headers else set()
        trouble = self._first.pop(0) if self._first else ""
        if trouble == "nobody":
            raise httpx.ConnectError("nobody there")
        answer = self._real.handle_request(request)
        answer.read()
        self.statuses.append(answer.status_code)
        return httpx.Response(503, headers={"retry-after": WHEN[trouble]}) if trouble in WHEN else answer


@pytest.fixture(scope="module")
def example() -> Any:
    return runpy.run_path(str(EXAMPLE))


@pytest.fixture
def transport() -> RecordingTransport:
    return RecordingTransport()


@pytest.fixture
def plaudit(example: Any, service: Service, transport: RecordingTransport) -> Iterator[Any]:
    with httpx.Client(base_url=service.address, timeout=90, transport=transport) as http:
        yield example["Plaudit"](http)


async def test_example_runs(service: Service, facade: Facade, product: str) -> None:
    store = await facade.open_store()
    process = await asyncio.create_subprocess_exec(
        sys.executable, EXAMPLE, service.address, store, product, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert printed.decode().splitlines() == ["[('Approved', 'Sharp pictures, and the battery lasts.')]", "4.0 1"]


async def test_command_is_retried_until_answered(example: Any, service: Service, facade: Facade, product: str) -> None:
    transport = RecordingTransport("nobody", "busy")
    with httpx.Client(base_url=service.address, timeout=90, transport=transport) as http:
        answer = await asyncio.to_thread(example["Plaudit"](http).submit, submission(product))
    assert (answer["outcome"], transport.statuses, len(transport.keys)) == ("applied", [200, 200], 1)
    assert await facade.listed(entityIds=[product]) == answer["ids"]


async def test_all_pages_are_read(plaudit: Any, transport: RecordingTransport, facade: Facade, product: str) -> None:
    ids = await facade.submit(*(submission(product, userId=f"u-{number}") for number in range(5)))
    rows = await asyncio.to_thread(lambda: list(plaudit.reviews(entityIds=[product], take=2)))
    assert {row["id"] for row in rows} == set(ids)
    assert (len(rows), len(transport.statuses)) == (5, 3)
    later = await asyncio.to_thread(lambda: list(plaudit.reviews(entityIds=[product], take=2, skip=1)))
    assert later == rows[1:]


async def test_unchanged_summary_is_cached(
    plaudit: Any, transport: RecordingTransport, facade: Facade, product: str
) -> None:
    store = await facade.open_store()
    await facade.submit_approved(submission(product, 5, storeId=store))
    first, second = [await asyncio.to_thread(plaudit.summary, store, product) for _ in range(2)]
    assert first == second
    assert (first["reviewCount"], transport.statuses) == (1, [200, 304])


async def test_problems_have_pointers(example: Any, plaudit: Any, facade: Facade, product: str) -> None:
    with pytest.raises(example["PlauditError"]) as refused:
        await asyncio.to_thread(plaudit.submit, submission(product, 6))
    assert (refused.value.status, [error["pointer"] for error in refused.value.errors]) == (422, ["/0/rating"])
    with pytest.raises(example["PlauditError"]) as unknown:
        await asyncio.to_thread(plaudit.summary, new_id("store"), product)
    assert (unknown.value.status, unknown.value.problem["type"]) == (404, "/problems/not-found")


async def test_retry_after_of_dates_and_long_waits(example: Any, service: Service, product: str) -> None:
    transport, refused = (
        RecordingTransport("until then", "for long"),
        pytest.raises(example["PlauditError"], match="503"),
    )
    with httpx.Client(base_url=service.address, timeout=90, transport=transport) as http, refused:
        await asyncio.to_thread(example["Plaudit"](http).submit, submission(product))
    assert transport.statuses == [200, 200]
