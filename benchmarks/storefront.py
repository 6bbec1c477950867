"""The storefront: requests per second for a cached summary against a bare endpoint with the same bytes, its response
time at half load, and the time until three processes show an approval."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from time import perf_counter
from typing import Final

from benchmarks.comparison import Comparison, p99
from benchmarks.facade import always, compare_rates, rate_products, serving, serving_both, submission
from benchmarks.http_load import Connection, get, open_connection, post, rate
from benchmarks.progress import print_progress
from benchmarks.servers import Servers, Workspace
from benchmarks.sizes import Size

_SUMMARY: Final = "/storefront/v1/open/Product/product-0/summary"
_PROCESSES: Final = 3
_CLIENTS: Final = 8
_WATCHED: Final = 500_000_000
_PAUSE_S: Final = 0.02
"""Pause between two requests for a summary; its response is cached from the request before."""


async def compare(servers: Servers, size: Size) -> list[Comparison]:
    """Measure one process and the bare server in turns, then the time until approvals show in three processes."""
    comparisons: list[Comparison] = []
    async with servers.workspace() as workspace:
        await rate_products(workspace, 1)
        async with serving_both(workspace) as (port, bare_port):
            tag = f"if-none-match: {await _etag(port)}\r\n"
            cases = [
                ("summary", get(_SUMMARY), get("/summary"), 200, "a bare endpoint that returns the same bytes"),
                ("summary, 304", get(_SUMMARY, tag), get("/unchanged", tag), 304, "a bare 304"),
            ]
            for name, request, bare_request, status, limit in cases:
                ours = partial(rate, port, always(request), status=status)
                bare = partial(rate, bare_port, always(bare_request), status=status)
                comparisons.append(await compare_rates(f"Storefront, {name}", f"limit: {limit}", 0.9, ours, bare, size))
            comparisons.append(await _at_half_load(port, size))
    async with servers.workspace() as workspace:
        comparisons.append(await _in_every_process(workspace, size))
    return comparisons


async def _etag(port: int) -> str:
    """The ETag of the summary, requested on a separate connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(get(_SUMMARY, "connection: close\r\n"))
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    writer.close()
    return next(line.partition(": ")[2] for line in head.splitlines() if line.lower().startswith("etag"))


async def _at_half_load(port: int, size: Size) -> Comparison:
    """The response time while requests arrive at half of the maximum rate of the process."""
    most = await rate(port, lambda _: get(_SUMMARY), seconds=size.seconds, status=200)
    half = most / 2
    runs = []
    for _ in range(size.runs):
        times: list[float] = []
        await asyncio.gather(*(_steadily(port, half / _CLIENTS, n, size.seconds, times) for n in range(_CLIENTS)))
        runs.append(p99(times))
    absolute = f"{half:,.0f} requests/s"
    return Comparison("Storefront, summary at half load, p99", "", runs, 5, "at most", "ms", absolute)


async def _steadily(port: int, per_second: float, number: int, seconds: float, times: list[float]) -> None:
    """Send requests at a steady rate; appends their times in milliseconds, from when each request was due."""
    connection = await open_connection(port)
    started = perf_counter() + number / _CLIENTS / per_second
    for count in range(int(per_second * seconds)):
        due = started + count / per_second
        if (pause := due - perf_counter()) > 0:
            await asyncio.sleep(pause)
            due = max(due, perf_counter() - 0.001)  # not counting the imprecise timer of this program
        await connection.ask(get(_SUMMARY))
        times.append(1000 * (perf_counter() - due))
    connection.close()


async def _in_every_process(workspace: Workspace, size: Size) -> Comparison:
    """The time from the response to an approval until the last of three processes shows it. Meanwhile the summary is
    requested all the time."""
    runs = []
    async with AsyncExitStack() as stack:
        ports = [await stack.enter_async_context(serving(workspace, "plaudit", "api")) for _ in range(_PROCESSES)]
        stack.enter_context(workspace.running("plaudit", "worker"))
        connections = [await open_connection(port) for port in ports]
        for run in range(size.runs):
            first = _WATCHED + run * size.observed
            times = [await _seen_by_all(connections, number) for number in range(first, first + size.observed)]
            runs.append(max(times))
            print_progress(f"  Round {run + 1} of {size.runs}: at most {max(times):.0f} ms for {len(times)} approvals")
    return Comparison(
        "Storefront, longest time from approval to the last of 3 processes", "", runs, 1000, "at most", "ms"
    )


async def _seen_by_all(connections: list[Connection], number: int) -> float:
    """Milliseconds from when the approval was applied until all processes show it."""
    review = submission(number)[0] | {"EntityId": f"watched-{number}"}
    request = get(f"/storefront/v1/open/Product/watched-{number}/summary")
    await connections[0].body_of(post("/api/customerReviews", [review], "prefer: wait=25\r\n"), 200)
    for connection in connections:
        await connection.ask(request)
    await connections[0].body_of(post("/api/customerReviews/approve", [review["id"]], "prefer: wait=25\r\n"), 200)
    started = perf_counter()
    await asyncio.gather(*(each.wait_for(b'"reviewCount":1', request, pause_s=_PAUSE_S) for each in connections))
    return 1000 * (perf_counter() - started)
