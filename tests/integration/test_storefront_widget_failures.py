"""The widget when an answer breaks off, and when a shopper goes on writing while a photo is uploaded."""

import asyncio

import pytest
from playwright.async_api import Browser, Page, Route, expect

from tests.support.chromium import Watch, opened
from tests.support.facade import new_id
from tests.support.waiting import eventually
from tests.support.widget import Filled, filled_form, photo, send, shopping, titles, until_loaded, until_thanked

pytestmark = pytest.mark.slow


async def break_off(route: Route) -> None:
    """Answer with success and half a body, as a connection that breaks does."""
    await route.fulfill(status=200, content_type="application/json", body='{"results": [{"id": "a"')


async def is_focus_inside(page: Page) -> bool:
    """True if the focus is in the widget."""
    return bool(await page.evaluate("document.activeElement.localName == 'plaudit-reviews'"))


@pytest.mark.parametrize("path", ["/summary", "/reviews?*", "/languages/en.json?*"])
async def test_broken_answer_can_be_retried(browser: Browser, filled: Filled, path: str) -> None:
    address = filled.show(f"/broken-{new_id()}")
    async with opened(browser, address, Watch()) as page:
        await page.route(f"**{path}", break_off)
        await page.goto(address)
        again = page.get_by_role("button", name="Try again")
        await again.wait_for()
        await page.unroute(f"**{path}")
        await again.press("Enter")
        await until_loaded(page)
        assert await is_focus_inside(page)


async def test_broken_page_leaves_the_reviews_before_it(browser: Browser, filled: Filled) -> None:
    async with shopping(browser, filled.show("/half")) as page:
        await until_loaded(page)
        behind = "**/reviews?*after=*"
        await page.route(behind, break_off)
        await page.get_by_role("button", name="Show more reviews").click()
        again = page.get_by_role("button", name="Try again")
        for _ in range(2):
            await again.press("Enter")
            await eventually(lambda: is_focus_inside(page))
        await expect(titles(page)).to_have_count(10)
        await page.unroute(behind)
        await again.click()
        await expect(titles(page)).to_have_count(15)


async def test_failed_proof_of_work_is_repeated(browser: Browser, filled: Filled) -> None:
    """Without it, the service asks for another one."""
    async with shopping(browser, filled.show("/no-proof", new_id("camera"))) as page:
        await page.evaluate("() => { crypto.subtle.digest = () => Promise.reject(Error()); }")
        form = await filled_form(page)

        async def mend(route: Route) -> None:
            await page.evaluate("() => { delete crypto.subtle.digest; }")
            await route.continue_()

        await page.route("**/Product/*/reviews", mend)
        await send(form)
        await until_thanked(page)


async def test_words_written_while_a_photo_is_uploaded_are_sent(browser: Browser, filled: Filled) -> None:
    """A photo can be removed meanwhile; the focus stays in the form."""
    coming: asyncio.Queue[Route] = asyncio.Queue()
    async with shopping(browser, filled.show("/writing-on", new_id("camera"))) as page:
        form = await filled_form(page, "It is teh best.")
        await page.route("**/images?*", coming.put)
        await form.get_by_label("photos").set_input_files([photo("1.png"), photo("2.png")])
        upload = await coming.get()
        await send(form)
        await form.get_by_text("Sending").wait_for()
        await form.get_by_role("button", name="Remove 2.png").press("Enter")
        await expect(form.get_by_role("list")).to_be_focused()
        await form.get_by_label("Your review").fill("It is the best.")
        async with page.expect_request("**/Product/*/reviews") as sent:
            await upload.continue_()
        body = (await sent.value).post_data_json
        assert body is not None
        assert body["review"] == "It is the best."
        await page.get_by_text("Thank you").wait_for()
