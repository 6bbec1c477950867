"""Choices of moderators in the console, in Chromium: reasons, stores and the time zone of times."""

from datetime import datetime, timedelta

import httpx
import pytest

from tests.support.chromium import Watch, chromium, opened
from tests.support.facade import Facade, new_id, submission
from tests.support.service import Service

pytestmark = pytest.mark.slow


async def test_no_reason_is_preselected(service: Service, facade: Facade) -> None:
    """The reject button alone decides nothing: wherever it is shown, it asks for the reason."""
    word = new_id("word")
    (id,) = await facade.submit(submission(new_id(), 4, title=word))
    watch = Watch()
    async with chromium() as browser, opened(browser, service.address, watch) as page:
        for path, where in ((f"queue?q={word}", "#context"), (f"reviews/{id}", "main")):
            await page.goto(f"/console/{path}")
            part = page.locator(where)
            await part.get_by_role("button", name="Reject").click()
            chosen = part.get_by_role("combobox", name="Reason")
            assert await chosen.evaluate("each => each === document.activeElement && !each.validity.valid")
        assert (await facade.review(id))["reviewStatus"] == "New"
        await page.goto(f"/console/queue?q={word}")
        aside = page.locator("#context")
        await aside.get_by_label("Reason").select_option("fake")
        await aside.get_by_role("button", name="Reject").click()
        await page.get_by_text("No waiting review matches these filters").wait_for()
    assert (await facade.review(id))["reasonCode"] == "fake"
    assert watch.complaints == []


async def test_times_are_in_the_visitors_time_zone(service: Service, facade: Facade) -> None:
    """Each time has UTC in its title. Without JavaScript times are in UTC. Every page names its time zone."""
    word = new_id("word")
    (id,) = await facade.submit(submission(new_id(), 4, title=word))
    written = datetime.fromisoformat((await facade.review(id))["createdDate"])
    utc, local = (f"{at:%-d %b %Y, %H:%M}" for at in (written, written + timedelta(hours=9)))
    watch = Watch()
    async with chromium() as browser, opened(browser, service.address, watch, timezone_id="Asia/Tokyo") as page:
        for path, part in ((f"queue?q={word}", "#context"), (f"reviews/{id}", "main")):
            await page.goto(f"/console/{path}")
            time = page.locator(f"{part} time").filter(has_text=local).first
            assert await time.get_attribute("title") == f"{utc} UTC"
            await page.get_by_text("Times are in Asia/Tokyo.").wait_for()
    async with (
        chromium() as browser,
        opened(browser, service.address, watch, timezone_id="Asia/Tokyo", java_script_enabled=False) as page,
    ):
        await page.goto(f"/console/reviews/{id}")
        await page.locator("main time").filter(has_text=utc).first.wait_for()
        await page.get_by_text("Times are in UTC.").wait_for()
    assert watch.complaints == []


async def test_store_is_chosen_by_link(service: Service, facade: Facade) -> None:
    """In the queue and in the list of reviews, existing filters stay."""
    store, product = new_id("store"), new_id()
    await facade.open_store(store, name=f"Shop {store}")
    word = new_id("word")
    await facade.submit(submission(product, 1, title=f"{word} here", storeId=store), submission(product, 1, title=word))
    async with chromium() as browser, opened(browser, service.address, Watch(), java_script_enabled=False) as page:
        for path in ("queue", "reviews"):
            await page.goto(f"/console/{path}?q={word}")
            assert await page.get_by_text(word).count() == 2
            await page.get_by_role("link", name="Store: any").click()
            await page.get_by_role("link", name=f"Shop {store}").click()
            await page.wait_for_url(f"**/{path}?*store=*")
            assert httpx.URL(page.url).params == httpx.QueryParams({"q": word, "store": store})
            assert await page.get_by_text(word).count() == 1


async def test_refused_form_focuses_the_wrong_field(service: Service, facade: Facade) -> None:
    store = new_id("store")
    await facade.command("PUT", f"/api/stores/{store}", {"name": "Shop"})
    async with chromium() as browser, opened(browser, service.address, Watch()) as page:
        await page.goto(f"/console/stores/{store}")
        await page.get_by_label("Template of return numbers").fill("{no-such-part}")
        await page.get_by_role("button", name="Review changes").click()
        await page.get_by_role("alert").wait_for()
        field = page.get_by_label("Template of return numbers")
        assert await field.input_value() == "{no-such-part}"
        assert await field.evaluate("each => each === document.activeElement")


async def test_digit_rejects_the_row_it_was_pressed_for(service: Service, facade: Facade) -> None:
    """Not for a row clicked meanwhile; and undoing brings the reason back."""
    word = new_id("word")
    await facade.submit(*(submission(new_id(), 4, title=word) for _ in range(2)))
    async with chromium() as browser, opened(browser, service.address, Watch()) as page:
        await page.goto(f"/console/queue?q={word}")
        rows = page.locator("#list > li")
        first, second = rows.nth(0), rows.nth(1)
        ids = [await each.get_attribute("data-id") or "" for each in (first, second)]
        await page.keyboard.press("r")
        await first.get_by_text("Reject: 1 spam").wait_for()
        await second.locator("h2").click()
        await page.keyboard.press("1")
        await page.locator(f"#r-{ids[1]}.focus").wait_for()
        assert await page.locator("#list .outcome:not(:empty)").count() == 0
        await first.locator("h2").click()
        await page.keyboard.press("r")
        await page.keyboard.press("1")
        await first.get_by_text("Rejected: spam.").wait_for()
        await page.keyboard.press("k")
        await page.keyboard.press("u")
        await first.get_by_text("New.").wait_for()
        await page.keyboard.press("z")
        await first.get_by_text("Undone").wait_for()
    found = [await facade.review(id) for id in ids]
    assert [(each["reviewStatus"], each["reasonCode"]) for each in found] == [("Rejected", "spam"), ("New", None)]
