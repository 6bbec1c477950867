"""The forms of the widget say what is missing or wrong, keep what was typed, and move the focus there."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from playwright.async_api import Browser, Page, Request, Route, expect

from domain.review_tokens import ReviewToken, sign_token
from storefront.demo import LANGUAGES
from tests.support.chromium import Watch, opened, violations
from tests.support.facade import new_id
from tests.support.images import picture
from tests.support.widget import (
    ALLOWED,
    WORDS,
    Filled,
    filled_form,
    open_form,
    open_report,
    photo,
    send,
    shopping,
    titles,
    until_loaded,
    until_thanked,
)

pytestmark = pytest.mark.slow

SMALL: Final = """([lowest]) => {
  const root = document.querySelector('plaudit-reviews').shadowRoot;
  return [...root.querySelectorAll('button, select, textarea, input:not(.gone, [name=website]), .rate label')]
    .map((each) => [each.textContent || each.name || each.type, each.getBoundingClientRect()])
    .filter(([, { width, height }]) => width && (width < lowest || height < lowest))
    .map(([name, { width, height }]) => `${name}: ${width} x ${height}`);
}"""
"""The targets that are smaller than this number of CSS pixels, each with its size."""

BESIDE: Final = """() => {
  const widget = document.querySelector('plaudit-reviews');
  const { left, right } = widget.getBoundingClientRect();
  return [...widget.shadowRoot.querySelectorAll('section :not(.gone, .gone *, svg, svg *, option)')]
    .filter((each) => each.getBoundingClientRect().left < left - 1 || each.getBoundingClientRect().right > right + 1)
    .map((each) => each.outerHTML.slice(0, 100));
}"""
"""The elements that reach beyond the widget."""


def sent_to(page: Page, ending: str) -> list[str]:
    """The bodies that the page posts to addresses with this ending, in a list that grows."""
    bodies: list[str] = []

    def note(request: Request) -> None:
        if request.method == "POST" and request.url.endswith(ending):
            bodies.append(request.post_data or "")

    page.on("request", note)
    return bodies


async def test_report_without_a_choice_says_what_to_do(browser: Browser, filled: Filled) -> None:
    async with shopping(browser, filled.show("/choose"), bypass_csp=True) as page:
        sent = sent_to(page, "/reports")
        dialog = await open_report(page)
        reason, send = dialog.get_by_label("Reason"), dialog.get_by_role("button", name="Send report")
        await expect(reason).to_have_value("")
        await send.click()
        await expect(reason).to_be_focused()
        await expect(reason).to_have_accessible_description("Please choose a reason.")
        explanation, box = dialog.get_by_label("What is wrong with it"), dialog.get_by_role("checkbox")
        await expect(explanation).to_have_accessible_description("Please describe what is wrong.")
        await expect(box).to_have_accessible_description("Please tick this box to send the report.")
        await expect(dialog.locator("[aria-invalid=true]")).to_have_count(3)
        assert await violations(page) == []
        await reason.select_option("illegal")
        await expect(reason).to_have_accessible_description("")
        await explanation.fill("It sells weapons.")
        await dialog.get_by_label("Your e-mail address").fill("anna@")
        await box.check()
        await send.click()
        mail = dialog.get_by_label("Your e-mail address")
        await expect(mail).to_be_focused()
        await expect(mail).to_have_accessible_description("Please enter a valid e-mail address.")
        await expect(explanation).to_have_value("It sells weapons.")
        assert sent == []
        await mail.fill("")
        await page.route("**/reports", lambda route: route.abort())
        await send.click()
        alert = dialog.get_by_role("alert")
        await expect(alert).to_contain_text("Nothing that you typed is lost")
        await expect(alert).to_be_focused()
        await page.unroute("**/reports")
        await send.click()
        await dialog.get_by_text("The shop will look at it.").wait_for()
        assert [("illegal" in body, "It sells weapons." in body) for body in sent] == [(True, True)] * 2


async def test_closed_report_keeps_what_was_typed(browser: Browser, filled: Filled) -> None:
    async with shopping(browser, filled.show("/closed")) as page:
        dialog = await open_report(page)
        await dialog.get_by_label("What is wrong with it").fill(WORDS)
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
        await open_report(page)
        await expect(dialog.get_by_label("What is wrong with it")).to_have_value(WORDS)


async def test_incomplete_review_says_what_to_do(browser: Browser, filled: Filled) -> None:
    async with shopping(browser, filled.show("/incomplete", new_id("camera")), bypass_csp=True) as page:
        sent = sent_to(page, "/reviews")
        form = await open_form(page)
        send, text = form.get_by_role("button", name="Send review"), form.get_by_label("Your review")
        await send.click()
        await expect(form.get_by_role("radio", name="1 star", exact=True)).to_be_focused()
        rating = form.get_by_role("radiogroup", name="Your rating")
        await expect(rating).to_have_accessible_description("Please choose from 1 to 5 stars.")
        await expect(text).to_have_accessible_description("Please write your review.")
        assert await violations(page) == []
        await page.keyboard.press("ArrowRight")
        await expect(rating).to_have_accessible_description("")
        await text.fill(" ")
        await send.click()
        await expect(text).to_be_focused()
        await expect(text).to_have_accessible_description("Please write your review.")
        title = form.get_by_label("Title (optional)")
        # A pasted text isn't cut; each of these characters has two units in JavaScript.
        await title.fill("🙂" * 201)
        await text.fill(WORDS)
        await send.click()
        await expect(title).to_be_focused()
        await expect(title).to_have_accessible_description(
            "This text is 1 character too long. Please shorten it.",
        )
        assert await title.input_value() == "🙂" * 201
        assert sent == []
        await title.fill("🙂" * 200)
        await send.click()
        await until_thanked(page)


async def test_refused_field_has_the_focus(browser: Browser, filled: Filled) -> None:
    """The service knows better than the browser what is blank."""
    async with shopping(browser, filled.show("/unseen", new_id("camera"))) as page:
        form = await open_form(page)
        text = form.get_by_label("Your review")
        await form.get_by_role("radio", name="4 stars").press("Space")
        await form.get_by_label("Title (optional)").fill("Sturdy")
        await text.fill("\u200b")
        await send(form)
        await expect(text).to_be_focused()
        await expect(text).to_have_accessible_description("Please fill in all required fields.")
        await expect(form.get_by_role("alert")).to_be_empty()
        await expect(form.get_by_label("Title (optional)")).to_have_value("Sturdy")


async def test_mistakes_beside_and_in_a_field_are_shown_together(browser: Browser, filled: Filled) -> None:
    errors = [
        {"pointer": "/title", "code": "string-too-long", "message": "Too long"},
        {"pointer": "/images/0", "code": "unknown-image", "message": "No such image"},
    ]
    async with shopping(browser, filled.show("/together", new_id("camera"))) as page:
        form = await filled_form(page)
        await page.route(
            "**/Product/*/reviews",
            lambda route: route.fulfill(status=422, headers=ALLOWED, json={"status": 422, "errors": errors}),
        )
        await send(form)
        title = form.get_by_label("Title (optional)")
        await expect(title).to_be_focused()
        await expect(title).to_have_accessible_description("A text is too long. Please shorten it.")
        await expect(form.get_by_role("alert")).to_have_text("A photo is no longer available. Please add it again.")


REFUSALS: Final[Mapping[str, tuple[Any, str]]] = {
    "rate": ({"status": 429}, "Too many requests. Please try again later."),
    "token": (
        {"status": 403, "results": [{"reason": "token-expired"}]},
        "The link has expired. Please contact the shop.",
    ),
    "away": ({"status": 503}, "This is not possible at the moment. Please try again later."),
    "unknown": ({"status": 500}, "Something went wrong. Nothing that you typed is lost: please try again."),
}


@pytest.mark.parametrize("reason", REFUSALS)
async def test_refused_review_is_kept_and_explained(browser: Browser, filled: Filled, reason: str) -> None:
    problem, text = REFUSALS[reason]
    async with shopping(browser, filled.show(f"/refused-{reason}", new_id("camera"))) as page:
        form = await filled_form(page)
        await page.route(
            "**/Product/*/reviews",
            lambda route: route.fulfill(status=problem["status"], headers=ALLOWED, json=problem),
        )
        await form.get_by_label("Title (optional)").press("Enter")
        await expect(form.get_by_role("alert")).to_have_text(text)
        await expect(form.get_by_role("alert")).to_be_focused()
        await expect(form.get_by_label("Your review")).to_have_value(WORDS)
        await expect(form.get_by_role("radio", name="4 stars")).to_be_checked()
        await page.unroute("**/Product/*/reviews")
        await page.keyboard.press("Tab")
        await expect(form.get_by_role("button", name="Send review")).to_be_focused()
        await page.keyboard.press("Enter")
        await until_thanked(page)


async def test_focus_stays_with_somebody_who_goes_on_typing(browser: Browser, filled: Filled) -> None:
    coming: asyncio.Queue[Route] = asyncio.Queue()
    async with shopping(browser, filled.show("/typing", new_id("camera"))) as page:
        form = await filled_form(page)
        await page.route("**/Product/*/reviews", coming.put)
        await send(form)
        sent = await coming.get()
        await form.get_by_label("Your name").press("M")
        await sent.abort()
        await expect(form.get_by_role("alert")).to_contain_text("Nothing that you typed is lost")
        await expect(form.get_by_label("Your name")).to_be_focused()


@pytest.mark.parametrize("is_expired", [True, False])
async def test_expired_token_is_reported_before_anything_is_typed(
    browser: Browser, filled: Filled, is_expired: bool
) -> None:
    expires = datetime.now(UTC) + timedelta(days=-1 if is_expired else 1)
    token = ReviewToken("Läden?>", "o", "a", "camera", "Åsa", expires)
    address = filled.show(f"/token-{is_expired}", attributes=f'token="{sign_token(token, bytes(32))}"')
    async with shopping(browser, address) as page:
        await until_loaded(page)
        if is_expired:
            await page.get_by_role("status").get_by_text("The link has expired. Please contact the shop.").wait_for()
        else:
            await page.get_by_role("button", name="Send review").wait_for()
        await expect(page.locator("plaudit-reviews form")).to_have_count(0 if is_expired else 1)


FILES: Final[Mapping[str, tuple[bytes, str]]] = {
    "manual.pdf": (b"%PDF-1.7\n", "This is not a photo in JPEG, PNG or WebP. Please choose another file."),
    "cut.jpg": (picture((800, 600), "JPEG")[:300], "This photo could not be read. Please choose another one."),
    "huge.jpg": (b"\xff\xd8\xff" + bytes(10 * 1024 * 1024), "Larger than 10.5 MB. Choose a smaller photo."),
}


@pytest.mark.parametrize("names", [["manual.pdf"], ["cut.jpg", "huge.jpg"]], ids=str)
async def test_refused_photos_can_be_removed_at_once(browser: Browser, filled: Filled, names: list[str]) -> None:
    """One after the other. Each is reported before the review is sent."""
    files = [photo("good.png"), *(photo(name, FILES[name][0], "application/octet-stream") for name in names)]
    async with shopping(browser, filled.show(f"/files-{len(names)}", new_id("camera"))) as page:
        form = await filled_form(page)
        await form.get_by_label("photos").set_input_files(files)
        for name in names:
            await form.get_by_role("listitem").get_by_text(FILES[name][1]).wait_for()
        for name in names:
            text = FILES[name][1]
            await send(form)
            remove = form.get_by_role("button", name=f"Remove {name}")
            await expect(remove).to_be_focused()
            await expect(remove).to_have_accessible_description(text)
            await expect(form.get_by_text(text)).to_have_count(1)
            await page.keyboard.press("Enter")
        await send(form)
        await until_thanked(page)


async def test_targets_are_large_enough_in_all_languages(browser: Browser, filled: Filled) -> None:
    """At least 24 by 24 CSS pixels (WCAG 2.2, 2.5.8), also in the small font of a narrow page."""
    found: dict[str, list[str]] = {}
    for language in LANGUAGES:
        address = filled.show("/targets", html=f'lang="{language}"')
        async with opened(browser, address, Watch(), viewport={"width": 320, "height": 800}, bypass_csp=True) as page:
            await page.goto(address)
            await page.add_style_tag(content="main { font-size: 13px }")
            await titles(page).first.wait_for()
            await page.locator("plaudit-reviews button.main").click()
            await page.locator("plaudit-reviews form").wait_for()
            await page.locator("plaudit-reviews li.one > .row:last-child > button").first.click()
            await page.locator("plaudit-reviews dialog").wait_for()
            if small := await page.evaluate(SMALL, [24]):
                found[language] = small
    assert found == {}


async def test_narrow_column_holds_the_form_in_all_languages(browser: Browser, filled: Filled) -> None:
    found: dict[str, list[str]] = {}
    for language in LANGUAGES:
        address = filled.show("/column", html=f'lang="{language}"', attributes='style="width: 200px"')
        async with shopping(browser, address, bypass_csp=True) as page:
            await titles(page).first.wait_for()
            await page.locator("plaudit-reviews button.main").click()
            await page.locator("plaudit-reviews form").wait_for()
            if beside := await page.evaluate(BESIDE):
                found[language] = beside
    assert found == {}


async def test_label_of_photos_is_the_photo_shown(browser: Browser, filled: Filled) -> None:
    """A click beside the dialog closes it."""
    async with shopping(browser, filled.show("/beside")) as page:
        await until_loaded(page)
        await page.get_by_role("button", name="With photos").click()
        await page.get_by_role("button", name="Photo 2 of 2").click()
        dialog = page.get_by_role("dialog", name="Photo 2 of 2")
        await dialog.get_by_role("button", name="Next").click()
        await page.get_by_role("dialog", name="Photo 1 of 2").wait_for()
        await page.mouse.click(3, 3)
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(page.get_by_role("button", name="Photo 2 of 2")).to_be_focused()


async def test_empty_fields_begin_where_the_language_begins(browser: Browser, filled: Filled) -> None:
    direction = "(field) => getComputedStyle(field).direction"
    async with shopping(browser, filled.show("/beginning", html='lang="ar"')) as page:
        await titles(page).first.wait_for()
        await page.locator("plaudit-reviews button.main").click()
        text = page.locator("plaudit-reviews textarea")
        assert await text.evaluate(direction) == "rtl"
        await text.fill("Sturdy")
        assert await text.evaluate(direction) == "ltr"


@pytest.mark.parametrize("size", [(320, 320), (844, 390)])
async def test_large_photo_leaves_room_for_its_buttons(browser: Browser, filled: Filled, size: tuple[int, int]) -> None:
    """On a phone held sideways, or magnified to 400 %, nobody has to scroll to close it."""
    viewport: Any = dict(zip(("width", "height"), size, strict=True))
    large = picture((1600, 1200), "JPEG")
    async with shopping(browser, filled.show("/low"), viewport=viewport) as page:
        await until_loaded(page)
        await page.route("**/api/images/*", lambda route: route.fulfill(content_type="image/jpeg", body=large))
        await page.get_by_role("button", name="With photos").click()
        await page.get_by_role("button", name="Photo 1 of 2").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_role("img")).to_have_js_property("naturalWidth", 1600)
        assert await dialog.evaluate("(dialog) => dialog.scrollHeight - dialog.clientHeight") <= 0
