"""The console where visitors sign in, in Chromium: signing in, what it refuses, and what nobody types twice."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from playwright.async_api import Browser, Page

from tests.support.chromium import WINDOWS, Watch, chromium, faults, opened, window
from tests.support.facade import Facade, new_id, submission
from tests.support.service import Servers, Service
from tests.support.waiting import eventually, free_port

pytestmark = pytest.mark.slow
MODERATOR = ("read", "update", "create", "createForOthers", "reply")
AWAY = {
    "PLAUDIT_AUTH__MODE": "none",
    "PLAUDIT_MONGO__URI": "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=500",
    "PLAUDIT_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1",
    "PLAUDIT_HTTP__QUERY_TIMEOUT": "1",
}


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
async def guarded(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """A service that is entered by API keys."""
    folder = tmp_path_factory.mktemp("guarded")
    async with Service(servers, folder, environment={"PLAUDIT_AUTH__MODE": "api_key"}).running() as service:
        yield service


@pytest.fixture(scope="module")
async def away(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """An API whose servers aren't there."""
    service = Service(servers, tmp_path_factory.mktemp("away"), free_port(), environment=AWAY)
    service.start("api")
    async with service.client() as http:

        async def answers() -> bool:
            try:
                return (await http.get("/health/live")).status_code == 200
            except httpx.TransportError:
                return False

        await eventually(answers)
    yield service
    await service.stop("api")


async def key_of(service: Service, *permissions: str) -> str:
    options = [each for name in permissions for each in ("--permission", f"customerReviews:{name}")]
    return (await service.run("keys", "create", f"anna-{new_id()}", *options)).stdout.strip()


async def enter(page: Page, key: str) -> None:
    await page.goto("/console/sign-in")
    await page.get_by_label("API key").fill(key)
    await page.get_by_role("button", name="Sign in").click()


@pytest.mark.parametrize(("scheme", "width"), WINDOWS)
async def test_nobody_is_left_out_of_what_is_refused(
    browser: Browser, guarded: Service, away: Service, scheme: str, width: int
) -> None:
    """No violation of axe on the page of signing in, nor on those of errors, and none wider than its window."""
    key = await key_of(guarded, "read")
    async with opened(browser, guarded.address, Watch(), **window(scheme, width)) as page:
        await page.goto("/console/queue")
        assert await faults(page) == []
        await enter(page, "plaudit_nonsense")
        await page.get_by_role("alert").wait_for()
        assert await faults(page) == []
        await enter(page, key)
        await page.get_by_role("button", name="Sign out").wait_for()
        for path, title in (("health", "Not allowed"), ("reviews/nowhere", "Not found"), ("nowhere", "Not found")):
            await page.goto(f"/console/{path}")
            await page.get_by_role("heading", name=title).wait_for()
            assert await faults(page) == [], path
    async with opened(browser, away.address, Watch(), **window(scheme, width)) as page:
        await page.goto("/console/queue")
        await page.get_by_role("heading", name="Not available at the moment").wait_for()
        assert await faults(page) == []


async def test_what_was_typed_outlives_the_session(browser: Browser, guarded: Service) -> None:
    key = await key_of(guarded, *MODERATOR)
    async with httpx.AsyncClient(base_url=guarded.address, headers={"x-api-key": key}, timeout=40) as http:
        own = Facade(http)
        (id,) = await own.submit(submission(new_id(), 4))
        async with opened(browser, guarded.address, Watch()) as page:
            await enter(page, key)
            await page.get_by_role("button", name="Sign out").wait_for()
            await page.goto(f"/console/reviews/{id}")
            reply = page.get_by_label("Text, shown with the review")
            await reply.fill("Thank you, Anna.")
            elsewhere = await page.context.new_page()
            await elsewhere.goto("/console/reviews")
            await elsewhere.get_by_role("button", name="Sign out").click()
            await elsewhere.get_by_text("You are signed out.").wait_for()
            save = page.get_by_role("button", name="Save the reply")
            await save.click()
            await page.get_by_role("alert").filter(has_text="You are signed out").wait_for()
            assert await reply.input_value() == "Thank you, Anna."
            await enter(elsewhere, key)
            await elsewhere.get_by_role("button", name="Sign out").wait_for()
            await save.click()
            await page.get_by_role("status").filter(has_text="The reply is saved.").wait_for()
        assert (await own.review(id))["reply"]["text"] == "Thank you, Anna."
