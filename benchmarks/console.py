"""The console at many reviews that wait: the time of the queue's pages, and from a key to the next row in Chromium.

`python -m benchmarks.console [reviews]`, a million unless given; it brings a MongoDB of its own.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from typing import Final

import httpx
from playwright.async_api import async_playwright
from rich.console import Console

from benchmarks.comparison import p99
from benchmarks.facade import free_port, until_open
from benchmarks.samples import stored_review
from devservers.mongo import embedded_mongo
from storage.database import connect
from storage.indexes import ensure_indexes

_DATABASE: Final = "bench"
_BATCH: Final = 10_000
_REQUESTS: Final = 300
_KEYS: Final = 45
_PATHS: Final = ("/console/queue", "/console/queue?only=low", "/console/reviews", "/console/queue/state")
_KEY_TO_NEXT_ROW: Final = """() => new Promise((told) => {
  const before = document.querySelector("#list > li.focus");
  const began = performance.now();
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true }));
  requestAnimationFrame(() => setTimeout(() => {
    if (document.querySelector("#list > li.focus") === before) throw new Error("the focus has not moved");
    told(performance.now() - began);
  }));
})"""


async def main() -> None:
    """Measure, and print the figures."""
    out = Console(highlight=False)
    reviews = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    async with _service(reviews, out) as address:
        for path in _PATHS:
            times = await _times(address + path)
            out.print(f"{path}: median {median(times):.1f} ms, p99 {p99(times):.1f} ms, {reviews:,} reviews wait")
        keys = await _keys(address)
        out.print(f"key to the next row: median {median(keys):.1f} ms, p99 {p99(keys):.1f} ms")


@asynccontextmanager
async def _service(reviews: int, out: Console) -> AsyncIterator[str]:
    """An API whose database has so many reviews that wait; its address."""
    with tempfile.TemporaryDirectory() as name:
        async with embedded_mongo(Path(name), out.print) as mongo:
            client, database = connect(mongo.uri, _DATABASE)
            async with client:
                await ensure_indexes(database, remember_days=21)
                for first in range(0, reviews, _BATCH):
                    some = [stored_review(each) for each in range(first, min(first + _BATCH, reviews))]
                    await database["reviews"].insert_many(some, ordered=False)
            port = free_port()
            settings = {
                "MONGO__URI": mongo.uri,
                "MONGO__DATABASE": _DATABASE,
                "KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1",
                "HTTP__PORT": str(port),
                "LOG__LEVEL": "error",
                "DATA": name,
                "AUTH__MODE": "none",
            }
            with _api(settings) as process:
                await until_open(process, port)
                yield f"http://127.0.0.1:{port}"


@contextmanager
def _api(settings: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, **{f"PLAUDIT_{each}": value for each, value in settings.items()}}
    process = subprocess.Popen([sys.executable, "-m", "plaudit", "api"], env=environment)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(15)


async def _times(address: str) -> list[float]:
    """The milliseconds of each request, after some that warm up."""
    found = []
    async with httpx.AsyncClient(timeout=60) as http:
        for number in range(_REQUESTS + 20):
            started = time.perf_counter()
            (await http.get(address)).raise_for_status()
            if number >= 20:
                found.append((time.perf_counter() - started) * 1_000)
    return found


async def _keys(address: str) -> list[float]:
    """The milliseconds from each of some keys to the frame with the next row."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = await browser.new_page()
        await page.goto(f"{address}/console/queue")
        found = [float(await page.evaluate(_KEY_TO_NEXT_ROW)) for _ in range(_KEYS)]
        await browser.close()
    return found


if __name__ == "__main__":
    asyncio.run(main())
