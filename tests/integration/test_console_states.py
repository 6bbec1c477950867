"""Sessions in the console, in Chromium: signing in, refusals, and typed values that survive the end of a session."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from playwright.async_api import Browser, Page, Route, expect

from tests.support.chromium import WINDOWS, Watch, faults, opened, window
from tests.support.facade import Facade, new_id, submission
from tests.support.service import Servers, Service, service_without_servers
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow
MODERATOR = (
    *(f"customerReviews:{name}" for name in ("read", "update", "create", "createForOthers", "reply")),
    "templates:read",
)


@pytest.fixture(scope="module")
async def guarded(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """Run a service that requires API keys."""
    folder = tmp_path_factory.mktemp("guarded")
    async with Service(servers, folder, environment={"PLAUDIT_AUTH__MODE": "api_key"}).running() as service:
        yield service


@pytest.fixture(scope="module")
async def away(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """Run an API without MongoDB and Kafka."""
    async with service_without_servers(servers, tmp_path_factory.mktemp("away")) as service:
        yield service


async def key_of(service: Service, *permissions: str) -> str:
    options = [each for name in permissions for each in ("--permission", name)]
    return (await service.run("keys", "create", f"anna-{new_id()}", *options)).stdout.strip()


async def sign_in(page: Page, key: str) -> None:
    await page.goto("/console/sign-in")
    await page.get_by_label("API key").fill(key)
    await page.get_by_role("button", name="Sign in").click()


@pytest.mark.parametrize(("scheme", "width"), WINDOWS)
async def test_sign_in_and_error_pages_are_accessible(
    browser: Browser, guarded: Service, away: Service, scheme: str, width: int
) -> None:
    """axe finds no violation on the sign-in page and the error pages, and no page is wider than its window."""
    key = await key_of(guarded, "customerReviews:read")
    async with opened(browser, guarded.address, Watch(), **window(scheme, width)) as page:
        await page.goto("/console/queue")
        assert await faults(page) == []
        await sign_in(page, "plaudit_nonsense")
        await page.get_by_role("alert").wait_for()
        assert await faults(page) == []
        await sign_in(page, key)
        await page.get_by_role("button", name="Sign out").wait_for()
        for path, title in (("health", "Not allowed"), ("reviews/nowhere", "Not found"), ("nowhere", "Not found")):
            await page.goto(f"/console/{path}")
            await page.get_by_role("heading", name=title).wait_for()
            assert await faults(page) == [], path
    async with opened(browser, away.address, Watch(), **window(scheme, width)) as page:
        await page.goto("/console/queue")
        await page.get_by_role("heading", name="Not available at the moment").wait_for()
        assert await faults(page) == []


@asynccontextmanager
async def signed_in(
    browser: Browser, guarded: Service, *, scripted: bool = True
) -> AsyncIterator[tuple[Page, Page, Facade, str]]:
    """Sign in a moderator; yields their page, another tab, their access to the API, and their key."""
    key = await key_of(guarded, *MODERATOR)
    async with (
        httpx.AsyncClient(base_url=guarded.address, headers={"x-api-key": key}, timeout=90) as http,
        opened(browser, guarded.address, Watch(), java_script_enabled=scripted) as page,
    ):
        await sign_in(page, key)
        await page.get_by_role("button", name="Sign out").wait_for()
        yield page, await page.context.new_page(), Facade(http), key


async def sign_out(elsewhere: Page) -> None:
    await elsewhere.goto("/console/reviews")
    await elsewhere.get_by_role("button", name="Sign out").click()
    await elsewhere.get_by_text("You are signed out.").wait_for()


async def sign_in_again(elsewhere: Page, key: str) -> None:
    await sign_in(elsewhere, key)
    await elsewhere.get_by_role("button", name="Sign out").wait_for()


async def saved_reply(page: Page, own: Facade, id: str) -> str:
    """Return a review's reply, once the page reports it as saved, or on a busy machine as accepted."""
    message = re.compile(r"The reply is saved\.|Accepted\. It takes effect in a moment\.")
    await page.get_by_role("status").filter(has_text=message).wait_for()
    review = await eventually(lambda: own.review(id), lambda review: review["reply"] is not None)
    return str(review["reply"]["text"])


@pytest.mark.parametrize("scripted", [True, False])
async def test_typed_reply_survives_end_of_session(browser: Browser, guarded: Service, *, scripted: bool) -> None:
    """With JavaScript the form stays as it is; without it the form is shown again, to be sent again."""
    async with signed_in(browser, guarded, scripted=scripted) as (page, elsewhere, own, key):
        (id,) = await own.submit(submission(new_id(), 4))
        await page.goto(f"/console/reviews/{id}")
        reply = page.get_by_label("Text, shown with the review")
        await reply.fill("Thank you, Anna.\nYour shop")
        await sign_out(elsewhere)
        save = page.get_by_role("button", name="Save the reply")
        await save.click()
        await page.get_by_role("alert").filter(has_text="You are signed out").wait_for()
        if scripted:
            assert await reply.input_value() == "Thank you, Anna.\nYour shop"
        await sign_in_again(elsewhere, key)
        await (save if scripted else page.get_by_role("button", name="Send it again")).click()
        assert await saved_reply(page, own, id) == "Thank you, Anna.\nYour shop"


async def test_end_of_session_is_reported(browser: Browser, guarded: Service) -> None:
    """An open queue reports it by itself. A link leads to the sign-in page, which leads on to the link's target."""
    async with signed_in(browser, guarded) as (page, elsewhere, own, key):
        word = new_id("word")
        (id,) = await own.submit(submission(new_id(), 4, title=word))
        await page.goto(f"/console/queue?q={word}")
        await page.locator("#list > li").wait_for()
        await sign_out(elsewhere)
        notice = page.locator("#news .signed-out")
        await notice.wait_for()
        await page.keyboard.press("a")
        await page.locator("#list > li.failed", has_text="You are signed out.").wait_for()
        await sign_in_again(elsewhere, key)
        await notice.wait_for(state="detached")
        await page.keyboard.press("a")
        await page.get_by_text("No waiting review matches these filters.").wait_for()
        await eventually(lambda: own.review(id), lambda review: review["reviewStatus"] == "Approved")
        await sign_out(elsewhere)
        await page.get_by_role("link", name="Reviews", exact=True).click()
        await page.get_by_text("Your session has ended. Sign in to continue where you were.").wait_for()
        await page.get_by_label("API key").fill(key)
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_url("**/console/reviews")


async def test_preview_reports_end_of_session(browser: Browser, guarded: Service) -> None:
    """The error is shown next to the typed values; the previous preview stays until there is another."""
    async with signed_in(browser, guarded) as (page, elsewhere, _, key):
        await page.goto("/console/templates/OrderReviewRequest")
        mail = page.frame_locator("iframe[name=preview]")
        shown = mail.get_by_text("thank you for your order")
        await shown.wait_for()
        await sign_out(elsewhere)
        await page.locator("form.fields [name=step][value=html]").click()
        alert = page.locator("form.fields").get_by_role("alert").filter(has_text="You are signed out")
        await alert.wait_for()
        assert await shown.count() == 1
        await sign_in_again(elsewhere, key)
        await page.get_by_role("button", name="Preview as text").click()
        await mail.get_by_text("Subject: ").wait_for()
        assert await alert.count() == 0


async def test_end_of_session_is_in_sight_in_a_long_form(browser: Browser, guarded: Service) -> None:
    """Its button is at the end, and the message at the beginning."""
    async with signed_in(browser, guarded) as (page, elsewhere, own, _):
        await page.set_viewport_size({"width": 800, "height": 200})
        (id,) = await own.submit(submission(new_id(), 4))
        await page.goto(f"/console/reviews/{id}")
        await page.get_by_label("Text, shown with the review").fill("Thank you.")
        await sign_out(elsewhere)
        await page.get_by_role("button", name="Save the reply").click()
        alert = page.get_by_role("alert").filter(has_text="You are signed out")
        await alert.wait_for()
        await expect(alert).to_be_in_viewport()


async def test_typed_reply_survives_unreachable_service(browser: Browser, guarded: Service) -> None:
    """Before it is sent, a slow service is reported as such."""
    async with signed_in(browser, guarded) as (page, _, own, _):
        (id,) = await own.submit(submission(new_id(), 4))
        await page.goto(f"/console/reviews/{id}")
        await page.get_by_label("Text, shown with the review").fill("Thank you.")
        save = page.get_by_role("button", name="Save the reply")
        await page.context.set_offline(True)
        await save.click()
        await page.get_by_role("alert").filter(has_text="The service is unavailable.").wait_for()
        await page.context.set_offline(False)
        checks: asyncio.Queue[Route] = asyncio.Queue()
        await page.route("**/console", checks.put)
        await save.dblclick()
        await page.get_by_role("alert").filter(has_text="The service takes longer than usual").wait_for()
        await (await checks.get()).continue_()
        assert await saved_reply(page, own, id) == "Thank you."
