"""Chromium, as people have it: what its pages log, ask for and violate is noted."""

import asyncio
import shutil
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright, expect

from tests.support.colours import TEXTS, contrast

WINDOWS: Final = [("light", 1360), ("dark", 1360), ("light", 320), ("dark", 320)]
"""The schemes and the widths that pages are made for."""

NAME_IN_A_NETWORK: Final = "reviews.lan"
"""Leads to this machine, but browsers don't know: by plain HTTP they trust it less than a loopback address."""

_PLACEHOLDERS: Final = """[...document.querySelectorAll("[placeholder]")].map((each) =>
  [each.placeholder, getComputedStyle(each, "::placeholder").color, getComputedStyle(each).backgroundColor])"""
"""Each with its colour and the one behind it: axe leaves them out."""

PATIENCE_MS: Final = 120_000
"""For whatever a page is asked or waited for: a busy machine takes its time, and the rest comes at once."""


@dataclass
class Watch:
    """The complaints of a page, and the hosts that it asked."""

    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def follow(self, page: Page) -> None:
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).hostname or ""))

    def _hear(self, told: ConsoleMessage) -> None:
        if told.type == "error":
            self.complaints.append(told.text)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """The installed Chromium; the test is skipped where there is none."""
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
    """A page in a context of its own, on the service at this address."""
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
            # Once in some hundreds it never says that it has: the tests after this one have contexts of their own.
            warnings.warn(f"Chromium didn't close {len(context.pages)} pages of {address}", stacklevel=2)


async def show(page: Page, *, is_hidden: bool) -> None:
    """Put a page into the background, or back: tabs of a browser without a window are all in view."""
    script = "each => { Object.defineProperty(document, 'hidden', { get: () => each, configurable: true }); "
    await page.evaluate(f"{script} document.dispatchEvent(new Event('visibilitychange')); }}", is_hidden)


async def violations(page: Page) -> list[str]:
    """The rules of axe that a page breaks, each with the elements."""
    found = await Axe().run(page)
    return [f"{each['id']}: {[node['html'][:160] for node in each['nodes']]}" for each in found.response["violations"]]


def window(scheme: str, width: int) -> dict[str, Any]:
    """The options of a page of one of WINDOWS, in which axe may run."""
    return {"color_scheme": scheme, "viewport": {"width": width, "height": 860}, "bypass_csp": True}


async def faults(page: Page) -> list[str]:
    """The violations of a page, its placeholders that are hard to read, and if it is wider than its window."""
    is_wide = await page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    faint = [text for text, *colours in await page.evaluate(_PLACEHOLDERS) if contrast(*colours) < TEXTS]
    return [
        *await violations(page),
        *(f"faint: {text}" for text in faint),
        *(["wider than the window"] if is_wide else []),
    ]
