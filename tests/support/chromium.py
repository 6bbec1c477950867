"""Chromium, with a record of what its pages log, request and violate."""

import asyncio
import shutil
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright, expect

from tests.support.colours import TEXTS, contrast
from tests.support.waiting import eventually

WINDOWS: Final = [("light", 1360), ("dark", 1360), ("light", 320), ("dark", 320)]
"""Colour schemes and widths that pages are designed for."""

NAME_IN_A_NETWORK: Final = "reviews.lan"
"""Host name that resolves to this machine. Browsers don't know that: over plain HTTP they trust it less than a
loopback address."""

_PLACEHOLDERS: Final = """[...document.querySelectorAll("[placeholder]")].map((each) =>
  [each.placeholder, getComputedStyle(each, "::placeholder").color, getComputedStyle(each).backgroundColor])"""
"""Text, colour and background of each placeholder, which axe doesn't check."""

_QUIET: Final = """() => {
  const loaded = new Set(performance.getEntriesByType("resource").map((each) => new URL(each.name).pathname));
  const parts = [...document.querySelectorAll("[hx-get][hx-trigger^=load]")];
  const isDue = (part) => !loaded.has(new URL(part.getAttribute("hx-get"), location.href).pathname);
  const roots = [document, ...[...document.querySelectorAll("*")].flatMap((each) => each.shadowRoot ?? [])];
  const isChanging = (each) => each.playState === "running" && each.effect.getComputedTiming().endTime < Infinity;
  return !(window.htmx && parts.some(isDue))
    && !document.querySelector(".htmx-request, .htmx-swapping, .htmx-settling, [aria-busy=true]")
    && !roots.some((root) => root.getAnimations().some(isChanging));
}"""
"""True once the parts that a page loads by itself have been loaded, and no transition is going on."""

HEARD: Final = """window.heard = [];
const { addEventListener } = EventSource.prototype;
EventSource.prototype.addEventListener = function (kind, hear) {
  addEventListener.call(this, kind, (event) => {
    hear(event);
    if (event.data) heard.push(`${kind} ${JSON.parse(event.data).id}`);
  });
};"""
"""Records each event of the queue's stream after the page has handled it."""

NO_STORAGE: Final = """Object.defineProperty(window, "localStorage", {
  get() { throw new DOMException("Blocked", "SecurityError"); },
});"""
"""Denies pages their local storage, as some settings of browsers do."""

PATIENCE_MS: Final = 120_000
"""Timeout of each wait for a page, long enough for a busy machine."""


@dataclass
class Watch:
    """Errors that pages log, and hosts that they request."""

    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def follow(self, page: Page) -> None:
        page.on("console", self._record)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).hostname or ""))

    def _record(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(message.text)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """The installed Chromium; skips the test without one."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("needs chromium: apt-get install chromium")
    expect.set_options(timeout=PATIENCE_MS)
    async with async_playwright() as playwright:
        args = ["--no-sandbox", f"--host-resolver-rules=MAP {NAME_IN_A_NETWORK} 127.0.0.1"]
        browser = await playwright.chromium.launch(executable_path=path, args=args, timeout=PATIENCE_MS)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def opened(browser: Browser, address: str, watch: Watch, **options: Any) -> AsyncIterator[Page]:
    """A page of the service at this address, in its own context."""
    context = await browser.new_context(base_url=address, **options)
    context.set_default_timeout(PATIENCE_MS)
    page = await context.new_page()
    watch.follow(page)
    try:
        yield page
    finally:
        try:
            async with asyncio.timeout(PATIENCE_MS / 1000):
                await context.close()
        except TimeoutError:
            # Rarely, closing never returns. Later tests are unaffected: each has its own context.
            warnings.warn(f"Chromium didn't close {len(context.pages)} pages of {address}", stacklevel=2)


async def show(page: Page, *, is_hidden: bool) -> None:
    """Hide a page or show it again, by script: without a window all tabs are visible."""
    script = "each => { Object.defineProperty(document, 'hidden', { get: () => each, configurable: true }); "
    await page.evaluate(f"{script} document.dispatchEvent(new Event('visibilitychange')); }}", is_hidden)


async def until_quiet(page: Page) -> None:
    """Wait until a page has loaded its parts, and its transitions have ended, but not for its open streams."""
    await eventually(partial(page.evaluate, _QUIET))


async def violations(page: Page) -> list[str]:
    """Each axe rule that a page violates, with the elements."""
    found = await Axe().run(page)
    return [f"{each['id']}: {[node['html'][:160] for node in each['nodes']]}" for each in found.response["violations"]]


def window(scheme: str, width: int) -> dict[str, Any]:
    """Options of a page in one of `WINDOWS`; axe may run in it."""
    return {"color_scheme": scheme, "viewport": {"width": width, "height": 860}, "bypass_csp": True}


async def faults(page: Page) -> list[str]:
    """Axe violations of a page, placeholders with low contrast, and horizontal overflow."""
    is_wide = await page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    faint = [text for text, *colours in await page.evaluate(_PLACEHOLDERS) if contrast(*colours) < TEXTS]
    return [
        *await violations(page),
        *(f"faint: {text}" for text in faint),
        *(["wider than the window"] if is_wide else []),
    ]
