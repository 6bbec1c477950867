"""What 10,000 connections that ask nothing do to a client that asks: its 99th percentile, quiet and under attack.

`python -m benchmarks.idle_connections`; it brings a MongoDB of its own. The attackers connect, send the beginning of
a request, and connect again 20 s after they were closed.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks.authentication import QUESTIONS, fill, running, until_ready
from devservers.mongo import embedded_mongo

ATTACKERS: Final = 10_000
PORT: Final = 18_433
REQUESTS: Final = 200
TURNS: Final = 3


async def main() -> None:
    """Measure in turns, and print what it came to."""
    out = Console(highlight=False)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        async with embedded_mongo(folder, out.print) as mongo:
            await fill(mongo.uri)
            stack.enter_context(running("none", mongo.uri, folder, PORT))
            await until_ready(PORT)
            ratios = []
            for _ in range(TURNS):
                quiet = await _p99()
                attack = asyncio.create_task(_attack())
                await asyncio.sleep(5)  # until most of them are there
                attacked = await _p99()
                attack.cancel()
                await asyncio.wait([attack])
                ratios.append(attacked / quiet)
                out.print(f"p99 quiet {quiet:.1f} ms, under attack {attacked:.1f} ms: {ratios[-1]:.2f} times")
            out.print(f"median: {statistics.median(ratios):.2f} times")
            stack.close()


async def _p99() -> float:
    path, body = QUESTIONS["ratings of 5 objects"]
    content = str(body).replace("'", '"')
    request = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(content)}\r\n\r\n{content}".encode()
    latencies = []
    for _ in range(REQUESTS):
        started = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        writer.close()
        latencies.append((time.perf_counter() - started) * 1_000)
    return sorted(latencies)[int(len(latencies) * 0.99)]


async def _attack() -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(ATTACKERS):
            group.create_task(_attacker())


async def _attacker() -> None:
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
            try:
                writer.write(b"POST /api/customerReviews HTTP/1.1\r\nhost: localhost\r\n")
                await reader.read()
            finally:
                writer.close()
        await asyncio.sleep(20)


if __name__ == "__main__":
    asyncio.run(main())
