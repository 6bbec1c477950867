"""Clients that retry commands while Kafka is away: the 99th percentile of a client that reads, quiet and beside them.

`python -m benchmarks.retries [clients]`; it brings a MongoDB of its own. Kafka takes connections and says nothing. The
clients come from a process of their own, and retry after as many seconds as each line says; 5 is what they are told.
"""

import asyncio
import multiprocessing
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from statistics import median
from typing import Final

from rich.console import Console

from benchmarks.api_alone import Api, apis
from benchmarks.comparison import paired
from benchmarks.http_load import ClosedError, open_connection, post

_CONTEXT: Final = multiprocessing.get_context("fork")
CLIENTS: Final = 2_000
PAUSES_S: Final = (5.0, 1.0, 0.0)
REQUESTS: Final = 500
TURNS: Final = 3
SETTLING_S: Final = 12.0
"""The first commands have been given up by then."""

_REVIEW: Final = {"entityId": "1", "entityType": "Product", "rating": 4, "title": "T", "review": "R", "userId": "u"}


async def main() -> None:
    """Measure in turns, and print the figures."""
    out, clients = Console(highlight=False), int(sys.argv[1]) if len(sys.argv) > 1 else CLIENTS
    with _silent_kafka() as kafka:
        async with apis(out.print, "none", kafka=kafka) as (api,):
            for pause_s in PAUSES_S:
                out.print(f"{clients} clients that retry after {pause_s:g} s: {await _measure(api, clients, pause_s)}")


async def _measure(api: Api, clients: int, pause_s: float) -> str:
    quiet, beside, told = [], [], Counter[int]()
    for _ in range(TURNS):
        quiet.append(await api.p99_ms(REQUESTS))
        ours, theirs = _CONTEXT.Pipe()
        retrying = _CONTEXT.Process(target=_retry, args=(api.port, clients, pause_s, theirs), daemon=True)
        retrying.start()
        await asyncio.sleep(SETTLING_S)  # until the load is an even one
        beside.append(await api.p99_ms(REQUESTS))
        ours.send(None)
        told += await asyncio.to_thread(ours.recv)
        retrying.join()
    ratio = median(paired(beside, quiet))
    shown = ", ".join(f"{a:.1f} ({q:.1f})" for a, q in zip(beside, quiet, strict=True))
    return f"p99 of reads beside them (quiet) {shown} ms; median ratio {ratio:.1f}; commands were told {dict(told)}"


@contextmanager
def _silent_kafka() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0), backlog=4_096) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def _retry(port: int, clients: int, pause_s: float, pipe: Pipe) -> None:
    told = Counter[int]()

    async def client(number: int) -> None:
        request = post("/api/customerReviews", [_REVIEW])
        await asyncio.sleep(pause_s * number / clients)  # they don't come as one
        connection = await open_connection(port)
        while True:
            try:
                status, _ = await connection.ask(request)
            except ClosedError:
                status, connection = 0, await open_connection(port)
            told[status] += 1
            await asyncio.sleep(pause_s)  # as a client that was told to come again

    async def all_of_them() -> None:
        tasks = [asyncio.create_task(client(number)) for number in range(clients)]
        await asyncio.to_thread(pipe.recv)
        for task in tasks:
            task.cancel()

    asyncio.run(all_of_them())
    pipe.send(told)


if __name__ == "__main__":
    asyncio.run(main())
