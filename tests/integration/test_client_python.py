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


class Witness(httpx.BaseTransport):
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
def witness() -> Witness:
    return Witness()


@pytest.fixture
def plaudit(example: Any, service: Service, witness: Witness) -> Iterator[Any]:
    with httpx.Client(base_url=service.address, timeout=90, transport=witness) as http:
        yield example["Plaudit"](http)


async def test_the_example_runs(service: Service, facade: Facade, product: str) -> None:
    store = await facade.open_store()
    process = await asyncio.create_subprocess_exec(
        sys.executable, EXAMPLE, service.address, store, product, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert printed.decode().splitlines() == ["[('Approved', 'Sharp pictures, and the battery lasts.')]", "4.0 1"]


async def test_a_command_is_sent_until_it_is_answered(
    example: Any, service: Service, facade: Facade, product: str
) -> None:
    witness = Witness("nobody", "busy")
    with httpx.Client(base_url=service.address, timeout=90, transport=witness) as http:
        answer = await asyncio.to_thread(example["Plaudit"](http).submit, submission(product))
    assert (answer["outcome"], witness.statuses, len(witness.keys)) == ("applied", [200, 200], 1)
    assert await facade.listed(entityIds=[product]) == answer["ids"]


async def test_all_pages(plaudit: Any, witness: Witness, facade: Facade, product: str) -> None:
    ids = await facade.submit(*(submission(product, userId=f"u-{number}") for number in range(5)))
    rows = await asyncio.to_thread(lambda: list(plaudit.reviews(entityIds=[product], take=2)))
    assert {row["id"] for row in rows} == set(ids)
    assert (len(rows), len(witness.statuses)) == (5, 3)
    later = await asyncio.to_thread(lambda: list(plaudit.reviews(entityIds=[product], take=2, skip=1)))
    assert later == rows[1:]


async def test_a_summary_is_sent_once(plaudit: Any, witness: Witness, facade: Facade, product: str) -> None:
    store = await facade.open_store()
    await facade.submit_approved(submission(product, 5, storeId=store))
    first, second = [await asyncio.to_thread(plaudit.summary, store, product) for _ in range(2)]
    assert first == second
    assert (first["reviewCount"], witness.statuses) == (1, [200, 304])


async def test_problems_tell_places(example: Any, plaudit: Any, facade: Facade, product: str) -> None:
    with pytest.raises(example["PlauditError"]) as refused:
        await asyncio.to_thread(plaudit.submit, submission(product, 6))
    assert (refused.value.status, [error["pointer"] for error in refused.value.errors]) == (422, ["/0/rating"])
    with pytest.raises(example["PlauditError"]) as unknown:
        await asyncio.to_thread(plaudit.summary, new_id("store"), product)
    assert (unknown.value.status, unknown.value.problem["type"]) == (404, "/problems/not-found")


async def test_nobody_waits_longer_than_a_minute_and_a_date_is_no_number(
    example: Any, service: Service, product: str
) -> None:
    witness, refused = Witness("until then", "for long"), pytest.raises(example["PlauditError"], match="503")
    with httpx.Client(base_url=service.address, timeout=90, transport=witness) as http, refused:
        await asyncio.to_thread(example["Plaudit"](http).submit, submission(product))
    assert witness.statuses == [200, 200]
