"""Response times of reads while other clients retry commands because Kafka is unavailable: the 99th percentile.

`python -m benchmarks.retries [clients]`; it starts its own MongoDB. Kafka is a server that accepts connections and
never answers. The clients run in a separate process, and retry after the number of seconds that each line states; the
API tells them to wait 5. For comparison, each line has the percentile without these clients in brackets.
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
"""By then the first commands have timed out."""

_REVIEW: Final = {"entityId": "1", "entityType": "Product", "rating": 4, "title": "T", "review": "R", "userId": "u"}


async def main() -> None:
    """Measure in turns, and print the figures."""
    out, clients = Console(highlight=False), int(sys.argv[1]) if len(sys.argv) > 1 else CLIENTS
    with _silent_kafka() as kafka:
        async with apis(out.print, "none", kafka=kafka) as (api,):
            for pause_s in PAUSES_S:
                out.print(f"{clients} clients that retry after {pause_s:g} s: {await _measure(api, clients, pause_s)}")


async def _measure(api: Api, clients: int, pause_s: float) -> str:
    alone, loaded, statuses = [], [], Counter[int]()
    for _ in range(TURNS):
        alone.append(await api.p99_ms(REQUESTS))
        ours, theirs = _CONTEXT.Pipe()
        retrying = _CONTEXT.Process(target=_retry, args=(api.port, clients, pause_s, theirs), daemon=True)
        retrying.start()
        await asyncio.sleep(SETTLING_S)  # until the load is steady
        loaded.append(await api.p99_ms(REQUESTS))
        ours.send(None)
        statuses += await asyncio.to_thread(ours.recv)
        retrying.join()
    ratio = median(paired(loaded, alone))
    shown = ", ".join(f"{of_loaded:.1f} ({of_alone:.1f})" for of_loaded, of_alone in zip(loaded, alone, strict=True))
    return f"p99 of reads (without the clients) {shown} ms; median ratio {ratio:.1f}; statuses {dict(statuses)}"


@contextmanager
def _silent_kafka() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0), backlog=4_096) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def _retry(port: int, clients: int, pause_s: float, pipe: Pipe) -> None:
    statuses = Counter[int]()

    async def client(number: int) -> None:
        request = post("/api/customerReviews", [_REVIEW])
        await asyncio.sleep(pause_s * number / clients)  # they don't all start at once
        connection = await open_connection(port)
        while True:
            try:
                status, _ = await connection.ask(request)
            except ClosedError:
                status, connection = 0, await open_connection(port)
            statuses[status] += 1
            await asyncio.sleep(pause_s)  # as a client does that was told to retry

    async def run_all() -> None:
        tasks = [asyncio.create_task(client(number)) for number in range(clients)]
        await asyncio.to_thread(pipe.recv)
        for task in tasks:
            task.cancel()

    asyncio.run(run_all())
    pipe.send(statuses)


if __name__ == "__main__":
    asyncio.run(main())
