"""The widget in Chromium, on a page of another site with a strict policy, using a running service."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, Page, Route, expect

from tests.support.chromium import Watch, opened, until_quiet, violations
from tests.support.colours import PARTS, contrast
from tests.support.facade import facade_of, new_id, submission
from tests.support.images import picture
from tests.support.shop_page import HOST
from tests.support.waiting import eventually
from tests.support.widget import (
    WIDE,
    Filled,
    open_form,
    open_report,
    photo,
    send,
    shopping,
    titles,
    until_loaded,
    until_vote_counted,
)

pytestmark = pytest.mark.slow

HOSTILE: Final[Sequence[str]] = json.loads((Path(__file__).parents[1] / "support" / "xss.json").read_text())
ATTACKED: Final = "an attack ran"


async def test_shopper_reads_and_votes(browser: Browser, filled: Filled) -> None:
    watch = Watch()
    async with shopping(browser, filled.show("/read"), watch) as page:
        await until_loaded(page)
        await expect(page.get_by_role("img", name="4.3 out of 5, 15 reviews")).to_be_visible()
        await expect(titles(page)).to_have_count(10)
        await page.get_by_role("button", name="Show more reviews").click()
        await expect(titles(page)).to_have_count(15)
        await expect(page.get_by_role("button", name="Show more reviews")).to_be_hidden()
        await expect(page.get_by_role("status").filter(has_text="15 reviews shown")).to_have_count(1)
        await page.get_by_role("button", name="1 star, 1 review").click()
        await expect(titles(page)).to_have_text(["Title 2"])
        await expect(page.get_by_text("We are sorry.")).to_be_visible()
        await page.get_by_role("button", name="With photos").click()
        await page.get_by_text("No review matches these filters.").wait_for()
        await page.get_by_role("button", name="Show all").click()
        await expect(titles(page)).to_have_count(10)
        await page.get_by_label("Sort by").select_option("lowest")
        await expect(titles(page).first).to_have_text("Title 2")
        await page.get_by_role("button", name="Verified purchases").click()
        await expect(titles(page)).to_have_text(["Title 0"])
        await expect(page.get_by_text("Received something in return for this review")).to_be_visible()
        await page.get_by_role("button", name="Yes").click()
        await until_vote_counted(page)
        await page.reload()
        await page.get_by_role("button", name="Verified purchases").click()
        await expect(titles(page)).to_have_text(["Title 0"])
        await expect(page.get_by_role("button", name="Yes")).to_have_attribute("aria-pressed", "true")
    assert watch.complaints == []
    assert watch.hosts == {HOST, "127.0.0.1"}


async def test_48_summaries_need_one_request(browser: Browser, filled: Filled) -> None:
    requests: list[str] = []
    products = [filled.product, *map(str, range(47))]
    address = filled.show_elements("/list", filled.stars(*products))
    async with opened(browser, address, Watch()) as page:
        page.on("request", lambda request: requests.append(request.url))
        await page.goto(address)
        await expect(page.get_by_role("img", name="4.3 out of 5, 15 reviews")).to_have_count(1)
        await expect(page.get_by_role("img", name="0 reviews")).to_have_count(47)
        assert len([url for url in requests if "/summaries" in url]) == 1
        others = [urlsplit(url).path for url in requests if "/summaries" not in url]
        assert [path for path in others if not path.endswith((".js", ".css", "/list"))] == []
        await page.evaluate("for (const one of document.querySelectorAll('plaudit-stars')) one.after(one.cloneNode())")
        await expect(page.get_by_role("img", name="4.3 out of 5, 15 reviews")).to_have_count(2)
        assert len([url for url in requests if "/summaries" in url]) <= 2


async def test_hostile_texts_stay_text(browser: Browser, filled: Filled) -> None:
    product, watch = new_id("camera"), Watch()
    async with facade_of(filled.service) as facade:
        given = [
            submission(product, 4, storeId=filled.store, userId=f"x{n}", title=text, review=text, userName=text)
            for n, text in enumerate(HOSTILE)
        ]
        for id, text in zip(await facade.submit_approved(*given), HOSTILE, strict=True):
            await facade.command("POST", f"/api/customerReviews/{id}/reply", {"text": text, "author": text})
    address = filled.show("/hostile", product)
    async with opened(browser, address, watch) as page:
        await page.add_init_script(f"window.alert = () => {{ document.title = '{ATTACKED}' }}")
        await page.goto(address)
        await expect(titles(page)).not_to_have_count(0)
        while (shown := await titles(page).count()) < len(HOSTILE):
            await page.get_by_role("button", name="Show more reviews").click()
            await expect(titles(page)).not_to_have_count(shown)
        await expect(titles(page)).to_have_count(len(HOSTILE))
        assert sorted(await titles(page).all_text_contents()) == sorted(HOSTILE)
        inside = page.locator("plaudit-reviews")
        assert await inside.locator("script, iframe, style, a, base, meta, math, [onerror], [onload]").count() == 0
        assert await page.title() != ATTACKED
    assert watch.complaints == []
    assert watch.hosts == {HOST, "127.0.0.1"}


async def test_photos_are_usable_by_keyboard(browser: Browser, filled: Filled) -> None:
    async with shopping(browser, filled.show("/photos")) as page:
        await until_loaded(page)
        await page.get_by_role("button", name="With photos").click()
        await expect(titles(page)).to_have_text(["Title 0"])
        await page.get_by_role("button", name="Photo 2 of 2").press("Enter")
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_role("img", name="Photo 2 of 2")).to_be_visible()
        await page.keyboard.press("ArrowRight")
        await expect(dialog.get_by_role("img", name="Photo 1 of 2")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
        await expect(page.get_by_role("button", name="Photo 2 of 2")).to_be_focused()


async def test_review_with_photos_is_submitted(browser: Browser, filled: Filled) -> None:
    product, watch = new_id("camera"), Watch()
    files = [
        photo(f"{name}.png", picture((30, 20), colour=colour))
        for name, colour in (("<img src=x onerror=alert(1)>", "teal"), ("navy", "navy"), ("gold", "gold"))
    ]
    address = filled.show("/write", product)
    async with shopping(browser, address, watch) as page, facade_of(filled.service) as facade:
        await page.get_by_text("There are no reviews yet.", exact=True).wait_for()
        submitted_event = page.evaluate(
            "new Promise((done) => addEventListener('plaudit:submitted', ({ detail }) => done(detail), { once: true }))"
        )
        submitted = asyncio.create_task(submitted_event)
        form = await open_form(page)
        await form.get_by_role("radio", name="1 star", exact=True).focus()
        for _ in range(3):
            await page.keyboard.press("ArrowRight")
        await expect(form.get_by_role("radio", name="4 stars")).to_be_checked()
        await form.get_by_label("Title (optional)").fill("Sturdy")
        await form.get_by_label("Your review").fill("It fell off a table, and lives.")
        await form.get_by_label("Your name").fill("Mira")
        await form.get_by_label("photos").set_input_files(files)
        await expect(form.get_by_text("Uploaded", exact=True)).to_have_count(3)
        await form.get_by_role("button", name="Remove navy.png").click()
        # The honeypot field can't be reached by people.
        await expect(form.locator("[inert] > [name=website]")).to_have_count(1)
        await send(form)
        thanks = page.get_by_text("Your review will appear once it has been checked.")
        await expect(thanks).to_be_focused()
        detail = await submitted
        assert detail["rating"] == 4
        review = await eventually(lambda: facade.review(detail["id"]))
        assert (review["rating"], review["title"], review["userName"]) == (4, "Sturdy", "Mira")
        assert len(review["images"]) == 2
        await facade.moderate("approve", detail["id"])
        pages = f"/storefront/v1/{filled.store}/Product/{product}"
        summary = await eventually(lambda: facade.get(f"{pages}/summary"), lambda found: found["reviewCount"] == 1)
        assert (summary["value"], summary["histogram"]["4"]) == (4.0, 1)
        structured = await facade.get(f"{pages}/jsonld")
        rating, review = structured["aggregateRating"], structured["review"][0]
        assert (rating["ratingValue"], review["name"]) == (4.0, "Sturdy")
    # Another shopper: a browser caches responses for a minute.
    async with shopping(browser, address, watch) as page:
        await expect(titles(page)).to_have_text(["Sturdy"])
        await expect(page.get_by_role("button", name="Photo 1 of 2")).to_be_visible()
        await expect(page.get_by_role("button", name="4 stars")).to_contain_text("1")
    assert watch.complaints == []
    assert watch.hosts == {HOST, "127.0.0.1"}


async def test_refused_review_is_reported_and_kept(browser: Browser, filled: Filled) -> None:
    keys: list[str] = []
    address = filled.show("/forged", attributes='token="forged"')

    async def fail(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        await route.abort()

    is_sent = asyncio.Event()

    async def lose(route: Route) -> None:
        await is_sent.wait()
        await route.abort()

    async with shopping(browser, address) as page:
        form = page.locator("plaudit-reviews form")
        await form.get_by_role("radio", name="2 stars").press("Space")
        await form.get_by_label("Your review").fill("Words that took an hour.")
        for is_shown in (False, True):
            await page.get_by_role("button", name="Write a review").click()
            await expect(form).to_be_visible(visible=is_shown)
        await expect(form.get_by_label("Your review")).to_have_value("Words that took an hour.")
        pattern = "**/Product/*/reviews"
        await page.route(pattern, fail)
        for _ in range(2):
            await send(form)
            await form.get_by_role("alert").get_by_text("Nothing that you typed is lost").wait_for()
        await form.get_by_label("Your review").fill("Words that took two hours.")
        await send(form)
        await form.get_by_role("alert").get_by_text("Nothing that you typed is lost").wait_for()
        assert keys[0] == keys[1] != keys[2]
        await page.route("**/images?*", lose)
        await form.get_by_label("photos").set_input_files(photo("lost.png"))
        await send(form)
        await expect(form.get_by_text("Nothing that you typed is lost")).to_have_count(0)
        is_sent.set()
        # At the photo alone, where the focus is: the review wasn't sent without it.
        await expect(form.get_by_text("Nothing that you typed is lost")).to_have_count(1)
        await expect(form.get_by_role("button", name="Remove lost.png")).to_be_focused()
        assert len(keys) == 3
        # The next attempt sends the photo as well.
        await page.unroute("**/images?*")
        await page.unroute(pattern)
        await send(form)
        await form.get_by_role("alert").get_by_text("The link is not valid.").wait_for()
        await expect(form.get_by_text("Uploaded", exact=True)).to_have_count(1)
        await expect(form.get_by_label("Your review")).to_have_value("Words that took two hours.")
        await expect(form.get_by_role("radio", name="2 stars")).to_be_checked()


async def address_of_store(filled: Filled, path: str, **settings: Any) -> str:
    """Open a store with these settings; returns the address of a page with its reviews."""
    async with facade_of(filled.service) as facade:
        store = await facade.open_store(storefrontOrigins=[filled.site.origin], **settings)
    return filled.show_elements(path, f'<plaudit-reviews store="{store}" type="Product" entity="x"></plaudit-reviews>')


async def test_store_with_reviews_by_invitation_only(browser: Browser, filled: Filled) -> None:
    address = await address_of_store(filled, "/invited", anonymousReviewsAllowed=False)
    async with shopping(browser, address) as page:
        await until_loaded(page)
        await page.get_by_role("button", name="Write a review").click()
        await page.get_by_text("Please use the link in that mail.").wait_for()
        await page.goto(f"{address}?token=forged")
        await page.get_by_role("button", name="Send review").wait_for()


async def test_mail_link_opens_only_product_form(browser: Browser, filled: Filled) -> None:
    """A token is for a product, and would be refused for other objects on the page."""
    kinds = {"Product": "true", "Vendor": "false"}
    start = f'<plaudit-reviews store="{filled.store}" entity="x"'
    elements = "".join(f'{start} type="{kind}"></plaudit-reviews>' for kind in kinds)
    address = filled.show_elements("/two", elements)
    async with shopping(browser, f"{address}?token=forged") as page:
        for kind, is_open in kinds.items():
            button = page.locator(f"plaudit-reviews[type={kind}]").get_by_role("button", name="Write a review")
            await expect(button).to_have_attribute("aria-expanded", is_open)


async def test_store_without_reviews(browser: Browser, filled: Filled) -> None:
    address = await address_of_store(filled, "/closed", reviewsEnabled=False)
    # Even with the link of a mail.
    for query in ("", "?token=forged"):
        async with shopping(browser, address + query) as page:
            await until_loaded(page)
            # The page doesn't invite reviews that aren't accepted.
            await expect(page.get_by_text("There are no reviews yet.", exact=True)).to_be_visible()
            if not query:
                await page.get_by_role("button", name="Write a review").click()
            await page.get_by_text("Reviews are not accepted here at the moment.").wait_for()
            await expect(page.get_by_role("button", name="Send review")).to_have_count(0)


async def test_report_reaches_moderators(browser: Browser, filled: Filled) -> None:
    async with shopping(browser, filled.show("/report")) as page, facade_of(filled.service) as facade:
        await until_loaded(page)
        await page.get_by_label("Sort by").select_option("lowest")
        await expect(titles(page).first).to_have_text("Title 2")
        await page.get_by_role("button", name="Report", exact=True).first.click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Reason").select_option("off-topic")
        await dialog.get_by_label("What is wrong with it").fill("It is about another camera.")
        await dialog.get_by_role("checkbox").check()
        await dialog.get_by_role("button", name="Send report").dblclick()
        await dialog.get_by_text("The shop will look at it.").wait_for()
        shown = await facade.get(f"/storefront/v1/{filled.store}/Product/{filled.product}/reviews", stars="1")
        path = f"/api/customerReviews/{shown['results'][0]['id']}/reports"
        reports = await eventually(lambda: facade.get(path), lambda found: found["totalCount"] == 1)
        assert reports["results"][0]["explanation"] == "It is about another camera."


async def test_unavailable_and_slow_service(browser: Browser, filled: Filled) -> None:
    everything = "**/storefront/v1/*/**"
    go = asyncio.Event()

    async def hold(route: Route) -> None:
        await go.wait()
        await route.continue_()

    address = filled.show("/away")
    async with opened(browser, address, Watch(), bypass_csp=True) as page:
        await page.route(everything, lambda route: route.abort())
        await page.goto(address)
        again = page.get_by_role("button", name="Try again")
        await again.wait_for()
        assert await violations(page) == []
        await page.unroute(everything)
        await page.route(everything, hold)
        await again.click()
        await page.locator("plaudit-reviews [aria-busy=true] .bone").first.wait_for()
        assert await violations(page) == []
        # What follows the widget stays out of the window: it would jump once the reviews are there.
        assert await page.locator("plaudit-reviews").evaluate("each => each.offsetHeight > innerHeight")
        go.set()
        await until_loaded(page)
        await page.unroute(everything)
        await page.route(everything, lambda route: route.abort())
        await page.get_by_role("button", name="With photos").click()
        await again.wait_for()
        # The reviews shown before don't match the filter.
        await expect(titles(page)).to_have_count(0)
        await page.unroute(everything)
        await again.click()
        await expect(titles(page)).to_have_text(["Title 0"])
        # The pressed button is gone; the focus moves to the list instead of the top of the page.
        await expect(page.get_by_label("Sort by")).to_be_focused()


async def test_missing_translations_can_be_retried(browser: Browser, filled: Filled) -> None:
    address, words = filled.show("/wordless", html='lang="de"'), "**/languages/de.json?v=*"
    async with opened(browser, address, Watch()) as page:
        await page.route(words, lambda route: route.abort())
        await page.goto(address)
        await page.get_by_text("be shown at the moment.").wait_for()
        await expect(page.locator("plaudit-reviews button")).to_have_text(["Try again"])
        await page.unroute(words)
        await page.get_by_role("button", name="Try again").click()
        await until_loaded(page, "Kundenbewertungen")


async def test_failed_list_restarts(browser: Browser, filled: Filled) -> None:
    """The cursor of the previous list isn't valid in the filtered one."""
    go = asyncio.Event()

    async def hold(route: Route) -> None:
        await go.wait()
        await route.continue_()

    verified = "**/reviews?*verified=true*"
    async with shopping(browser, filled.show("/narrowed")) as page:
        await until_loaded(page)
        more = page.get_by_role("button", name="Show more reviews")
        again = page.get_by_role("button", name="Try again")
        await page.route(verified, lambda route: route.abort())
        await page.get_by_role("button", name="Verified purchases").click()
        await again.wait_for()
        await expect(more).to_be_hidden()
        await page.unroute(verified)
        await again.click()
        await expect(titles(page)).to_have_text(["Title 0"])
        await page.get_by_role("button", name="Verified purchases").click()
        await expect(titles(page)).to_have_count(10)
        behind = "**/reviews?*after=*"
        await page.route(behind, lambda route: route.abort())
        await more.click()
        await again.wait_for()
        await expect(more).to_be_visible()
        await page.unroute(behind)
        await page.route(verified, hold)
        await page.get_by_role("button", name="Verified purchases").click()
        await expect(more).to_be_hidden()
        await again.click()
        go.set()
        await expect(titles(page)).to_have_text(["Title 0"])
        await expect(again).to_have_count(0)


async def test_self_hosted_copy_of_widget(browser: Browser, filled: Filled) -> None:
    watch = Watch()
    head = '<script type="module" src="/copies/plaudit-reviews.js"></script>'
    address = filled.show("/own", attributes=f'src="{filled.service.address}/"', head=head)
    policy = filled.site.policies["/own"]
    filled.site.policies["/own"] = policy.replace(f"script-src 'self' {filled.service.address}", "script-src 'self'")
    async with shopping(browser, address, watch) as page:
        await open_form(page)
    assert watch.complaints == []


async def open_photo(page: Page) -> None:
    await page.get_by_role("button", name="Photo 1 of 2").click()
    await page.get_by_role("dialog").get_by_role("img", name="Photo 1 of 2").wait_for()


STATES: Final[Mapping[str, Callable[[Page], Awaitable[Any]]]] = {
    "list": lambda page: titles(page).first.wait_for(),
    "form": open_form,
    "lightbox": open_photo,
    "report": open_report,
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_chosen_stars_have_contrast(browser: Browser, filled: Filled, scheme: Any) -> None:
    async with shopping(browser, filled.show("/stars"), color_scheme=scheme) as page:
        form = await open_form(page)
        await form.get_by_role("radio", name="3 stars").check(force=True)
        page_colour = await page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        stars = await form.locator(".rate label > svg").evaluate_all(
            """(stars) => stars.map((star) => {
                const { fill, stroke } = getComputedStyle(star);
                return [fill, stroke];
            })"""
        )
        fills = [page_colour if fill == "none" else fill for fill, _ in stars]
        assert fills == [fills[0]] * 3 + [fills[4]] * 2
        assert contrast(fills[0], fills[4]) >= PARTS
        assert all(contrast(stroke, page_colour) >= PARTS for _, stroke in stars)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_field_borders_have_contrast(browser: Browser, filled: Filled, scheme: Any) -> None:
    async with shopping(browser, filled.show("/edges"), color_scheme=scheme) as page:
        await open_form(page)
        page_colour = await page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        looks = await page.locator("plaudit-reviews :is(select, textarea, [name=title])").evaluate_all(
            """(fields) => fields.map((field) => {
                const { borderTopColor, backgroundColor } = getComputedStyle(field);
                return [borderTopColor, backgroundColor];
            })"""
        )
        assert len(looks) == 3
        assert [look for look in looks if contrast(*look) < PARTS or contrast(look[0], page_colour) < PARTS] == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1000), ("dark", 1000), ("light", 320), ("dark", 320)])
async def test_widget_is_accessible(browser: Browser, filled: Filled, scheme: str, width: int) -> None:
    """axe finds no violation in any state, and no page is wider than its window."""
    options: dict[str, Any] = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}, "bypass_csp": True}
    faults_by_state = {}
    address = filled.show("/states")
    for name, reach in STATES.items():
        async with shopping(browser, address, **options) as page:
            await until_loaded(page)
            if name == "lightbox":
                await page.get_by_role("button", name="With photos").click()
            await reach(page)
            await until_quiet(page)
            if found := await violations(page):
                faults_by_state[name] = found
            if await page.evaluate(WIDE):
                faults_by_state.setdefault(name, []).append("wider than the window")
    async with shopping(browser, filled.show("/nothing", "nothing"), **options) as page:
        await page.get_by_text("There are no reviews yet.", exact=True).wait_for()
        if found := await violations(page):
            faults_by_state["empty"] = found
    assert faults_by_state == {}


@pytest.mark.parametrize("html", ['lang="ar"', 'lang="ar" dir="rtl"'])
async def test_right_to_left_layout(browser: Browser, filled: Filled, html: str) -> None:
    options: dict[str, Any] = {"viewport": {"width": 320, "height": 800}, "bypass_csp": True}
    async with shopping(browser, filled.show("/ar", html=html), **options) as page:
        await until_loaded(page, "مراجعات العملاء")
        box = page.locator("plaudit-reviews section")
        assert await box.evaluate("(box) => getComputedStyle(box).direction") == "rtl"
        heading = await page.get_by_role("heading", name="مراجعات العملاء").evaluate(
            "(one) => { const range = document.createRange(); range.selectNodeContents(one); "
            "return innerWidth - range.getBoundingClientRect().right }"
        )
        assert heading < 40
        full = page.locator(".sum .stars svg")
        gap = "(full) => full.closest('.stars').getBoundingClientRect().right - full.getBoundingClientRect().right"
        assert abs(await full.evaluate(gap)) < 8
        gap = "(rect) => rect.parentElement.getBoundingClientRect().right - rect.getBoundingClientRect().right"
        assert abs(await page.locator(".bar rect").first.evaluate(gap)) < 1
        assert await page.evaluate(WIDE) is False
        assert await violations(page) == []
