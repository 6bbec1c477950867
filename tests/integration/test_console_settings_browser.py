"""Settings, templates, the audit log and similar pages in Chromium: no violation of axe or of the security policy."""

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from playwright.async_api import Route, expect

from tests.support.chromium import Watch, chromium, opened, violations
from tests.support.facade import Facade, new_id, submission
from tests.support.orders import Returns
from tests.support.service import Service

pytestmark = pytest.mark.slow
HOSTILE = '"><img src=x onerror=alert(1)><script>alert(1)</script>'
MAIL = "/console/templates/OrderReviewRequest"


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_trials_and_changes_have_no_violations(service: Service, facade: Facade, scheme: Any) -> None:
    """Nor has the mail template of one store. The other pages are in test_console_screens.py."""
    store = await facade.open_store(moderationRules=[{"id": "links", "kind": "links", "outcome": "hold"}])
    await facade.submit(submission(new_id(), title=HOSTILE, review=f"{HOSTILE} www.example.com", storeId=store))
    here, watch = f"/console/stores/{store}", Watch()
    async with chromium() as browser:
        async with opened(browser, service.address, watch, color_scheme=scheme) as page:
            await page.goto(f"{here}/rules")
            await page.get_by_text("Try them on").click()
            await page.get_by_text("On the last 1 review of").wait_for()
        async with opened(browser, service.address, Watch(), color_scheme=scheme, bypass_csp=True) as page:
            for path in (f"{here}/rules", f"{MAIL}?store={store}"):
                await page.goto(path)
                assert (path, await violations(page)) == (path, [])
            await page.goto(here)
            await page.get_by_label("Accept reviews", exact=True).uncheck()
            await page.get_by_text("Review changes").click()
            await page.get_by_text("1 value would change").wait_for()
            assert await violations(page) == []
    assert watch.complaints == []
    assert watch.hosts == {"127.0.0.1"}


async def test_mail_preview_is_live_and_runs_no_script(service: Service) -> None:
    watch = Watch()
    async with chromium() as browser, opened(browser, service.address, watch) as page:
        await page.goto("/console/templates")
        await page.goto(MAIL)
        mail = page.frame_locator("iframe[name=preview]")
        await mail.get_by_text("thank you for your order").wait_for()
        asked = len(watch.hosts)
        for text in ("First", "Second"):
            await page.get_by_label("HTML").fill(f"<p>{text} {{{{ order.number }}}}</p><script>parent.x = 1</script>")
            await mail.get_by_text(text).wait_for()
        assert await page.evaluate("window.x") is None
        assert asked == len(watch.hosts)
        await page.get_by_label("Subject").fill("{% if %}")
        await mail.get_by_text("Line 1").wait_for()
        await page.go_back()
        await page.wait_for_url("**/console/templates")


_IS_LEFT_TO_RIGHT = """({ firstChild: text }) => {
  const at = (place) => {
    const range = document.createRange();
    range.setStart(text, place);
    range.setEnd(text, place + 1);
    return range.getBoundingClientRect().left;
  };
  return at(0) < at(4);
}"""
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


async def test_phone_shows_both_values_of_a_change(service: Service, facade: Facade) -> None:
    """Both are visible where the button to save them is."""
    store = new_id("store")
    await facade.command("PUT", f"/api/stores/{store}", {"name": "Photo"})
    async with chromium() as browser, opened(browser, service.address, Watch(), **PHONE) as page:
        await page.goto(f"/console/stores/{store}")
        await page.get_by_label("Accept reviews", exact=True).check()
        await page.get_by_text("Review changes").click()
        for value in (page.locator("del"), page.locator("ins")):
            await expect(value).to_be_in_viewport(ratio=1)


async def test_phone_shows_all_columns_of_orders_and_returns(service: Service, facade: Facade) -> None:
    bag = "bag-of-leather-7"
    item = {"id": bag, "name": "Shoulder bag of leather", "quantity": 12, "price": 1234.5}
    returns = Returns(service, facade.http)
    order = await returns.ordered({}, items=[item], currency="EUR")
    id = await returns.create(order, {bag: 1})
    async with chromium() as browser, opened(browser, service.address, Watch(), **PHONE) as page:
        for path in (f"/console/returns/new?orderId={order}", f"/console/returns/{id}"):
            await page.goto(path)
            quantity = page.get_by_label("Quantity of Shoulder bag of leather")
            await quantity.scroll_into_view_if_needed()
            for field in (quantity, page.get_by_label("Reason for Shoulder bag of leather")):
                await expect(field).to_be_in_viewport(ratio=1)
            width = await quantity.evaluate("each => each.clientWidth")
            await quantity.fill("1234567")
            assert await quantity.evaluate("each => each.clientWidth") > width
            await page.get_by_text("1,234.50 EUR each").wait_for()
        await page.goto(f"/console/orders/{order}")
        await expect(page.get_by_role("cell", name="1,234.50 EUR")).to_be_in_viewport(ratio=1)


async def test_long_names_stay_readable(service: Service, facade: Facade) -> None:
    """On a phone the owner of a key isn't broken within a word; no name reverses the text beside it."""
    store, owner = new_id("store"), f"{new_id('').strip('-')}@example.org"
    await facade.command("PUT", f"/api/stores/{store}", {"name": "ab\u202ecd"})
    now = datetime.now(UTC)
    key: dict[str, Any] = {"_id": new_id(), "client": owner, "permissions": [], "digest": b"", "created": now}
    async with (
        service.mongo() as database,
        chromium() as browser,
        opened(browser, service.address, Watch(), **PHONE) as page,
    ):
        await database["apiKeys"].insert_one({**key, "stores": None, "expires": None, "revoked": None})
        await page.goto(f"/console/keys?q={owner}")
        link = page.get_by_role("link", name=owner, exact=True)
        assert await link.evaluate("each => each.getClientRects().length") == 1
        await page.goto(f"/console/stores?q={store}")
        id = page.locator("small").get_by_text(store)
        await id.wait_for()
        assert await id.evaluate(_IS_LEFT_TO_RIGHT)


@pytest.mark.parametrize("counts", [{}, {"queue": "123,456", "returns": "1,000+"}], ids=["small", "large"])
async def test_phone_shows_the_name_of_the_page_in_the_navigation(
    service: Service, facade: Facade, counts: dict[str, str]
) -> None:
    """Also once the counts before it are loaded. The end of a row fades out where more follows."""
    await facade.submit(submission(new_id()))
    async with chromium() as browser, opened(browser, service.address, Watch(), **PHONE) as page:
        for name, count in counts.items():
            await page.route(f"**/{name}/waiting", partial(Route.fulfill, content_type="text/html", body=count))
        for path in ("returns", "orders", "reminders", "audit", "health"):
            await page.goto(f"/console/{path}")
            await expect(page.locator("nav .n").first).not_to_be_empty()
            await expect(page.locator("nav [aria-current]")).to_be_in_viewport(ratio=1)
            end = await page.evaluate(
                "document.querySelector('nav ul').getBoundingClientRect().right"
                " - document.querySelector('nav [aria-current]').getBoundingClientRect().right"
            )
            assert end > 23, path


async def test_touch_targets_are_large_enough(service: Service, facade: Facade) -> None:
    await facade.submit(submission(new_id()))
    async with chromium() as browser, opened(browser, service.address, Watch(), **PHONE) as page:
        for path, name in (("queue", "#list input[type=checkbox]"), ("queue", ".keys button"), ("settings", ".check")):
            await page.goto(f"/console/{path}")
            box = await page.locator(name).first.bounding_box()
            assert box is not None
            assert box["height"] >= 24, name
