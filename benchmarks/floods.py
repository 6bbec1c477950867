"""Floods on the wire: the 99th percentile of a client that asks, quiet and beside each, and the memory of the API.

`python -m benchmarks.floods [name]...`; it brings a MongoDB of its own. Each flood comes from a process of its own, by
one connection after the other, from somebody who isn't let in.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from multiprocessing.synchronize import Event
from pathlib import Path
from socket import create_connection
from typing import Final

from rich.console import Console

from benchmarks.authentication import QUESTIONS, Facade, fill, running, until_ready
from devservers.mongo import embedded_mongo

_CONTEXT: Final = multiprocessing.get_context("fork")
PORT: Final = 18_434
REQUESTS: Final = 300
TURNS: Final = 3
_HEAD: Final = b"POST /api/customerReviews/reviewList HTTP/1.1\r\nhost: localhost\r\n"
_CHUNKED: Final = _HEAD + b"transfer-encoding: chunked\r\n\r\n"
FLOODS: Final = {
    "trailers": (_CHUNKED + b"0\r\n", b"x-api-key: aaaaaaaaaaaaaaaa\r\n" * 2_000),
    "one trailer": (_CHUNKED + b"0\r\nx: ", b"a" * 60_000),
    "chunk extension": (_CHUNKED + b"1;", b"a" * 60_000),
    "small chunks": (_CHUNKED, b"1\r\na\r\n" * 10_000),
    "requests": (_HEAD + b"\r\n", (_HEAD + b"\r\n") * 1_000),
    "short headers": (_HEAD, b"a:\r\n" * 15_000),
}


async def main() -> None:
    """Measure in turns, and print what it came to."""
    out = Console(highlight=False)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        async with embedded_mongo(folder, out.print) as mongo:
            await fill(mongo.uri)
            facade = stack.enter_context(running("jwt", mongo.uri, folder, PORT))
            await until_ready(PORT)
            for flood in sys.argv[1:] or FLOODS:
                out.print(f"{flood}: {await _measured(facade, flood)}")
            stack.close()


async def _measured(facade: Facade, name: str) -> str:
    quiet, beside = [], []
    for _ in range(TURNS):
        quiet.append(await _p99(facade))
        flows = _CONTEXT.Event()
        attack = _CONTEXT.Process(target=_flood, args=(*FLOODS[name], flows), daemon=True)
        attack.start()
        await asyncio.to_thread(flows.wait)
        beside.append(await _p99(facade))
        attack.kill()
        attack.join()
    ratio = statistics.median(a / q for a, q in zip(beside, quiet, strict=True))
    shown = ", ".join(f"{a:.1f} ({q:.1f})" for a, q in zip(beside, quiet, strict=True))
    return (
        f"p99 beside it (quiet) {shown} ms; median ratio {ratio:.1f}; memory of the API so far {_peak_mib(facade)} MiB"
    )


def _peak_mib(facade: Facade) -> int:
    status = Path(f"/proc/{facade.process.pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) // 1_024


async def _p99(facade: Facade) -> float:
    path, body = QUESTIONS["ratings of 5 objects"]
    content = str(body).replace("'", '"')
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{facade.headers}content-length: {len(content)}\r\n\r\n"
    latencies = []
    for _ in range(REQUESTS):
        started = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        writer.write((head + content).encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(answer.decode())
        writer.close()
        latencies.append((time.perf_counter() - started) * 1_000)
    return sorted(latencies)[int(len(latencies) * 0.99)]


def _flood(start: bytes, more: bytes, flows: Event) -> None:
    while True:
        with suppress(OSError), create_connection(("127.0.0.1", PORT), timeout=5) as connection:
            connection.sendall(start)
            while True:
                connection.sendall(more)
                flows.set()


if __name__ == "__main__":
    asyncio.run(main())
