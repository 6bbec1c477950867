"""The console with many new reviews: the response times of its pages, the time in Chromium from a key press to the next
row, and the time from the submission of a review until an open queue announces it.

`python -m benchmarks.console [reviews]`, by default with a million reviews; it starts its own servers.
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
from benchmarks.samples import stored_review
from benchmarks.servers import Workspace, running_servers

_BATCH: Final = 10_000
_REQUESTS: Final = 300
_KEYS: Final = 45
_NEWS: Final = 200
_PATHS: Final = ("/console/queue", "/console/queue?only=low", "/console/reviews", "/console/queue/state")
_FIRST_NEW: Final = 150_000_000
_KEY_TO_NEXT_ROW: Final = """() => new Promise((resolve, reject) => {
  const before = document.querySelector("#list > li.focus");
  const began = performance.now();
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true }));
  requestAnimationFrame(() => setTimeout(() => {
    if (document.querySelector("#list > li.focus") === before) reject(new Error("the focus has not moved"));
    resolve(performance.now() - began);
  }));
})"""
_REPORT_NEWS: Final = """() => {
  const element = document.getElementById("news");
  new MutationObserver(() => announced(element.textContent)).observe(element, { childList: true });
}"""


async def main() -> None:
    """Measure, and print the results."""
    out = Console(highlight=False)
    reviews = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    out.print(f"{reviews:,} new reviews")
    with tempfile.TemporaryDirectory() as folder:
        async with running_servers(Path(folder)) as servers, servers.workspace() as workspace:
            await _fill(workspace, reviews)
            async with serving(workspace, "plaudit", "api") as port:
                address = f"http://127.0.0.1:{port}"
                with workspace.running("plaudit", "worker") as worker:
                    await workspace.until_relayed(worker)
                    for path in _PATHS:
                        _print(out, path, await _times(address + path))
                    async with _page(address) as page:
                        _print(out, "a new review in an open queue", await _news(address, page))
                        _print(out, "key press to the next row", await _keys(page))


def _print(out: Console, name: str, times: Sequence[float]) -> None:
    out.print(f"{name}: median {median(times):.1f} ms, p99 {p99(times):.1f} ms, at most {max(times):.1f} ms")


async def _fill(workspace: Workspace, reviews: int) -> None:
    for first in range(0, reviews, _BATCH):
        some = [stored_review(each) for each in range(first, min(first + _BATCH, reviews))]
        await workspace.database["reviews"].insert_many(some, ordered=False)


async def _times(address: str) -> list[float]:
    """The time of each request in milliseconds, after some requests for warm-up."""
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
    """A browser page with an open queue, in Chromium."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = await browser.new_page()
        await page.goto(f"{address}/console/queue")
        yield page
        await browser.close()


async def _news(address: str, page: Page) -> list[float]:
    """The milliseconds from the submission of each of some reviews until the page announces it. Earlier ones are for
    warm-up."""
    announced: asyncio.Queue[str] = asyncio.Queue()
    await page.expose_function("announced", announced.put_nowait)
    await page.evaluate(_REPORT_NEWS)
    found = []
    async with httpx.AsyncClient(timeout=60) as http:
        for number in range(_NEWS + 20):
            started = time.perf_counter()
            answer = await http.post(f"{address}/api/customerReviews", json=submission(_FIRST_NEW + number))
            answer.raise_for_status()
            if not (news := await asyncio.wait_for(announced.get(), 60)).startswith(f"{number + 1} new"):
                raise AssertionError(news)
            if number >= 20:
                found.append((time.perf_counter() - started) * 1_000)
    return found


async def _keys(page: Page) -> list[float]:
    """The milliseconds from each of some key presses to the frame with the next row."""
    return [float(await page.evaluate(_KEY_TO_NEXT_ROW)) for _ in range(_KEYS)]


if __name__ == "__main__":
    asyncio.run(main())
