"""The console at many reviews that wait: the time of its pages, from a key to the next row in Chromium, and from the
submission of a review until an open queue tells of it.

`python -m benchmarks.console [reviews]`, a million unless given; it brings its servers.
"""

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Final

import httpx
from playwright.async_api import Page, async_playwright
from rich.console import Console

from benchmarks.comparison import p99
from benchmarks.facade import serving, submission
from benchmarks.ground import Place, ground
from benchmarks.samples import stored_review

_BATCH: Final = 10_000
_REQUESTS: Final = 300
_KEYS: Final = 45
_NEWS: Final = 200
_PATHS: Final = ("/console/queue", "/console/queue?only=low", "/console/reviews", "/console/queue/state")
_FIRST_NEW: Final = 150_000_000
_KEY_TO_NEXT_ROW: Final = """() => new Promise((told, failed) => {
  const before = document.querySelector("#list > li.focus");
  const began = performance.now();
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true }));
  requestAnimationFrame(() => setTimeout(() => {
    if (document.querySelector("#list > li.focus") === before) failed(new Error("the focus has not moved"));
    told(performance.now() - began);
  }));
})"""
_TELL_NEWS: Final = """() => {
  const place = document.getElementById("news");
  new MutationObserver(() => heard(place.textContent)).observe(place, { childList: true });
}"""


async def main() -> None:
    """Measure, and print the figures."""
    out = Console(highlight=False)
    reviews = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    out.print(f"{reviews:,} reviews wait")
    with tempfile.TemporaryDirectory() as folder:
        async with ground(Path(folder)) as servers, servers.place() as place:
            await _fill(place, reviews)
            async with serving(place, "plaudit", "api") as port:
                address = f"http://127.0.0.1:{port}"
                with place.running("plaudit", "worker") as worker:
                    await place.until_relayed(worker)
                    for path in _PATHS:
                        _tell(out, path, await _times(address + path))
                    async with _page(address) as page:
                        _tell(out, "a new review in an open queue", await _news(address, page))
                        _tell(out, "a key to the next row", await _keys(page))


def _tell(out: Console, name: str, times: Sequence[float]) -> None:
    out.print(f"{name}: median {median(times):.1f} ms, p99 {p99(times):.1f} ms, at most {max(times):.1f} ms")


async def _fill(place: Place, reviews: int) -> None:
    for first in range(0, reviews, _BATCH):
        some = [stored_review(each) for each in range(first, min(first + _BATCH, reviews))]
        await place.database["reviews"].insert_many(some, ordered=False)


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


@asynccontextmanager
async def _page(address: str) -> AsyncIterator[Page]:
    """An open queue in Chromium."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = await browser.new_page()
        await page.goto(f"{address}/console/queue")
        yield page
        await browser.close()


async def _news(address: str, page: Page) -> list[float]:
    """The milliseconds from the request that submits each of some reviews until the page shows one more, after some
    that warm up."""
    heard: asyncio.Queue[str] = asyncio.Queue()
    await page.expose_function("heard", heard.put_nowait)
    await page.evaluate(_TELL_NEWS)
    found = []
    async with httpx.AsyncClient(timeout=60) as http:
        for number in range(_NEWS + 20):
            started = time.perf_counter()
            answer = await http.post(f"{address}/api/customerReviews", json=submission(_FIRST_NEW + number))
            answer.raise_for_status()
            if not (told := await asyncio.wait_for(heard.get(), 60)).startswith(f"{number + 1} new"):
                raise AssertionError(told)
            if number >= 20:
                found.append((time.perf_counter() - started) * 1_000)
    return found


async def _keys(page: Page) -> list[float]:
    """The milliseconds from each of some keys to the frame with the next row."""
    return [float(await page.evaluate(_KEY_TO_NEXT_ROW)) for _ in range(_KEYS)]


if __name__ == "__main__":
    asyncio.run(main())
