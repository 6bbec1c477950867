"""The 99th percentile of a client's response times, without and with a flood of malformed requests, and API memory.

`python -m benchmarks.floods [name]...`; it starts its own MongoDB. Each flood comes from a separate process without
credentials, over one connection after the other.
"""

import asyncio
import multiprocessing
import re
import sys
from contextlib import suppress
from multiprocessing.synchronize import Event
from pathlib import Path
from socket import create_connection
from statistics import median
from typing import Final

from rich.console import Console

from benchmarks.api_alone import Api, apis
from benchmarks.comparison import paired

_CONTEXT: Final = multiprocessing.get_context("fork")
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
    """Measure in turns, and print the figures."""
    out = Console(highlight=False)
    async with apis(out.print, "jwt") as (api,):
        for flood in sys.argv[1:] or FLOODS:
            out.print(f"{flood}: {await _measure(api, flood)}")


async def _measure(api: Api, name: str) -> str:
    alone, flooded = [], []
    for _ in range(TURNS):
        alone.append(await api.p99_ms(REQUESTS))
        has_begun = _CONTEXT.Event()
        attack = _CONTEXT.Process(target=_flood, args=(api.port, *FLOODS[name], has_begun), daemon=True)
        attack.start()
        await asyncio.to_thread(has_begun.wait)
        flooded.append(await api.p99_ms(REQUESTS))
        attack.kill()
        attack.join()
    ratio = median(paired(flooded, alone))
    shown = ", ".join(f"{of_flooded:.1f} ({of_alone:.1f})" for of_flooded, of_alone in zip(flooded, alone, strict=True))
    return (
        f"p99 (without flood) {shown} ms; median ratio {ratio:.1f}; peak memory of the API so far {_peak_mib(api)} MiB"
    )


def _peak_mib(api: Api) -> int:
    status = Path(f"/proc/{api.process.pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) // 1_024


def _flood(port: int, start: bytes, more: bytes, has_begun: Event) -> None:
    while True:
        with suppress(OSError), create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(start)
            while True:
                connection.sendall(more)
                has_begun.set()


if __name__ == "__main__":
    asyncio.run(main())
