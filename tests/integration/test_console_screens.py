"""Every page of the console in Chromium, filled with hostile text: it stays text, and the pages are accessible."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import pytest

from console.app import SCREENS
from tests.support.chromium import WINDOWS, Watch, chromium, faults, opened, until_quiet, window
from tests.support.facade import Facade, facade_of, new_id, submission
from tests.support.messages import Message
from tests.support.orders import Returns
from tests.support.service import Servers, Service, running_service
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

HOSTILE: Final = "'\"><img src=x onerror=alert(1)><script>alert(1)</script>{{7*7}}<b hx-get=/ hx-trigger=load>"
NO_PAGES: Final = {"/queue/news", "/queue/since", "/images/{imageId}", "/audit/export", "/templates/{name}/preview"}
"""Paths that serve no page, and have tests of their own."""
PARTS: Final = {"/queue/state", "/queue/chips", "/queue/waiting", "/returns/waiting", "/reviews/{id}/context"}
"""Parts that are loaded into other pages."""


@dataclass(frozen=True)
class Filled:
    """A service with one of everything, and a URL path for each route of the console."""

    service: Service
    addresses: Mapping[str, str]


@pytest.fixture(scope="module")
async def filled(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Filled]:
    async with running_service(servers, tmp_path_factory.mktemp("screens")) as service, facade_of(service) as own:
        yield Filled(service, await _fill(service, own))


async def _fill(service: Service, own: Facade) -> dict[str, str]:
    store, product, customer = await own.open_store(name=HOSTILE), new_id("camera"), new_id(HOSTILE[:40])
    texts = {"title": HOSTILE, "review": HOSTILE, "userName": HOSTILE, "EntityName": HOSTILE}
    first, second = await own.submit(
        *(submission(product, rating, storeId=store, userId=customer, **texts) for rating in (2, 5))
    )
    await own.command("POST", f"/api/customerReviews/{first}/reply", {"text": HOSTILE, "author": HOSTILE})
    await own.moderate("approve", first)
    returns = Returns(service, own.http)
    order = await returns.ordered(
        {HOSTILE[:40]: 3}, customerId=customer, customerName=HOSTILE, number=HOSTILE[:60], storeId=store
    )
    created = await returns.create(order, {HOSTILE[:40]: 1}, resolution=HOSTILE[:100])
    await service.publish("review-submissions", Message(HOSTILE, f'{{"{HOSTILE[:20]}": '.encode()))

    async def letters() -> list[str]:
        return [each["place"] for each in (await own.get("/api/deadLetters"))["results"]]

    (letter,) = await eventually(letters)
    return {
        "/queue": "/queue",
        "/queue/state": "/queue/state",
        "/queue/chips": "/queue/chips",
        "/queue/waiting": "/queue/waiting",
        "/queue/all": "/queue/all?q=img",
        "/queue/bulk": f"/queue/bulk?n-applied=1&n-text-changed=1&left={first}",
        "/choose-store/{list}": f"/choose-store/queue?q={quote(HOSTILE)}",
        "/choose-store/reminders": f"/choose-store/reminders?order={quote(HOSTILE)}",
        "/reviews": f"/reviews?q={quote(HOSTILE)}",
        "/reviews/{id}": f"/reviews/{first}",
        "/reviews/{id}/context": f"/reviews/{second}/context",
        "/objects": "/objects",
        "/objects/{type}/{id:path}": f"/objects/Product/{product}",
        "/returns": "/returns?status=all",
        "/returns/waiting": "/returns/waiting",
        "/returns/new": f"/returns/new?orderId={quote(order)}",
        "/returns/{id}": f"/returns/{created}",
        "/orders": f"/orders?customer={quote(customer)}",
        "/orders/{id:path}": f"/orders/{order}",
        "/reminders": "/reminders",
        "/stores": "/stores",
        "/stores/{id}": f"/stores/{store}",
        "/stores/{id}/rules": f"/stores/{store}/rules",
        "/settings": "/settings",
        "/templates": "/templates",
        "/templates/{name}": "/templates/OrderReviewRequest",
        "/entity-types": f"/entity-types?type=Product&id={quote(HOSTILE)}",
        "/audit": f"/audit?subject={quote(HOSTILE)}",
        "/dead-letters": "/dead-letters",
        "/dead-letters/{topic}/{partition}/{offset}": f"/dead-letters/{letter}",
        "/health": "/health",
        "/keys": "/keys",
    }


def test_every_screen_is_covered(filled: Filled) -> None:
    assert {screen.path for screen in SCREENS if screen.method == "GET"} - NO_PAGES == filled.addresses.keys()


async def test_hostile_text_is_shown_as_text(filled: Filled) -> None:
    watch = Watch()
    async with chromium() as browser, opened(browser, filled.service.address, watch) as page:
        await page.add_init_script("window.alert = () => { document.title = 'an attack ran' }")
        shown = 0
        for path in filled.addresses.values():
            response = await page.goto(f"/console{path}")
            assert response is not None
            assert response.status == 200, path
            await until_quiet(page)
            assert await page.title() != "an attack ran", path
            found = await page.locator("main script, main img[src=x], [hx-get='/'], main style").count()
            assert found == 0, path
            text = await page.locator("body").inner_text()
            assert "49<b" not in text, path
            shown += "onerror=alert(1)" in text
    # The text was really shown.
    assert shown >= 8
    assert watch.complaints == []
    assert watch.hosts == {"127.0.0.1"}


@pytest.mark.parametrize(("scheme", "width"), WINDOWS)
async def test_screens_are_accessible(filled: Filled, scheme: str, width: int) -> None:
    """axe finds no violation on any page, and no page is wider than its window."""
    options, faults_by_path = window(scheme, width), {}
    async with chromium() as browser, opened(browser, filled.service.address, Watch(), **options) as page:
        for name, path in filled.addresses.items():
            if name in PARTS:
                continue
            await page.goto(f"/console{path}")
            await until_quiet(page)
            if found := await faults(page):
                faults_by_path[path] = found
    assert faults_by_path == {}


@pytest.mark.parametrize("width", [1360, 390])
async def test_screens_fit_with_large_texts(filled: Filled, width: int) -> None:
    """As with a larger font size in the settings of the browser."""
    wide = []
    async with (
        chromium() as browser,
        opened(browser, filled.service.address, Watch(), **window("light", width)) as page,
    ):
        for path in (each for name, each in filled.addresses.items() if name not in PARTS):
            await page.goto(f"/console{path}")
            await page.evaluate("document.documentElement.style.fontSize = '150%'")
            await until_quiet(page)
            if await page.evaluate("document.documentElement.scrollWidth") > width:
                wide.append(path)
        assert await page.locator("body").evaluate("each => getComputedStyle(each).fontSize") == "21px"
    assert wide == []


_LINES: Final = "each => Math.round(each.clientHeight / parseFloat(getComputedStyle(each).lineHeight))"


@pytest.mark.parametrize("width", [1360, 390])
async def test_long_words_fit_the_page(service: Service, facade: Facade, width: int) -> None:
    """Names may have a thousand characters without a space: they wrap, and words beside them don't. A column of many
    words is wide, also where it is out of sight: else phones would show few rows."""
    word, product = new_id("word"), new_id("p" * 90)
    long = {"title": word + "t" * 900, "userName": "u" * 120, "EntityName": "n" * 1_000, "review": "r" * 2_000}
    first, second = await facade.submit(
        submission(product, 1, userId="x" * 120, **long), submission(product, 2, title="unbroken", review=word)
    )
    await facade.moderate("approve", first)
    returns = Returns(service, facade.http)
    order = await returns.ordered({"Kettle, matt": 1, "Kettle, red": 2, "Kettle, blue": 3}, status="s" * 120)
    returned = await returns.create(order, {"Kettle, red": 1})
    settings = {"reviewUrl": f"https://shop.example/{'x' * 900}?p={{productId}}&token={{token}}"}
    rules = [{"id": "w" * 64, "kind": "links", "outcome": "hold"}]
    await facade.open_store(product, name="s" * 120, moderationRules=rules, **settings)
    await facade.submit(submission(product, 1, storeId=product, review="https://shop.example"))
    watch, options = Watch(), window("light", width)
    async with chromium() as browser, opened(browser, service.address, watch, **options) as page:
        narrowed = f"reviews?author={'x' * 120}"
        for path in (
            *(f"reviews/{first}", f"reviews/{second}", narrowed, f"queue?q={word}"),
            *(f"objects/Product/{product}", "audit", f"stores/{product}", f"stores/{product}/rules"),
            *(f"queue?store={product}", f"orders/{order}", f"returns/{returned}"),
        ):
            await page.goto(f"/console/{path}")
            await until_quiet(page)
            assert await faults(page) == [], path
            if path == f"reviews/{first}":
                assert len(await page.locator("header").inner_text()) < 1_300
                assert await page.locator("aside .cut").evaluate(_LINES) == 3
                assert await page.locator("dd", has_text="n" * 1_000).is_visible()
        reminded = await returns.ordered({"Kettle, matt": 1}, storeId=product)
        hidden = "document.querySelector('.scroll').scrollWidth - document.querySelector('.scroll').clientWidth"
        for path in (f"reminders?order={reminded}", f"reviews?q={word}"):
            await page.goto(f"/console/{path}")
            assert width < 1_000 or await page.evaluate(hidden) == 0, path
        # Of more than three lines is no name in the row, but its end in the tooltip.
        assert max([await each.evaluate(_LINES) for each in await page.locator(".cut").all()]) <= 3
        assert await page.get_by_title("n" * 1_000).count() == 1
        short = page.get_by_role("link", name="unbroken")
        assert await short.evaluate("each => each.getClientRects().length") == 1
        await page.goto(f"/console/returns?order={order}")
        number = page.locator("tbody a").first
        assert await number.evaluate("each => each.getClientRects().length") == 1
        await page.goto(f"/console/orders?q={order}")
        assert await page.locator("tbody tr").evaluate("row => row.clientHeight") < 100


HIDDEN: Final = """() => {
  const each = document.activeElement;
  const { left, right, top, bottom } = each.getBoundingClientRect();
  const isAt = (x, y) => each.contains(document.elementFromPoint(x, y));
  const y = (top + bottom) / 2;
  return isAt(left + 4, y) && isAt(right - 4, y) ? [] : [`${each.outerHTML.slice(0, 160)} at ${left}, ${top}`];
}"""
"""The element in focus if an end of it is out of sight or behind another."""


@pytest.mark.parametrize("width", [1360, 390])
async def test_focus_is_in_sight(service: Service, facade: Facade, width: int) -> None:
    """No bar at the window's edges covers what the keyboard reaches, and rows that scroll show it whole."""
    word = new_id("word")
    await facade.submit(*(submission(new_id(), title=f"{word} {n}", review="Fine. " * n) for n in range(1, 13)))
    async with (
        chromium() as browser,
        opened(browser, service.address, Watch(), **window("light", width), reduced_motion="reduce") as page,
    ):
        await page.goto(f"/console/queue?q={word}")
        await until_quiet(page)
        hidden = []
        # The bar of the buttons for selected rows covers the top.
        for bar in (False, True):
            await page.locator("#list [type=checkbox]").last.set_checked(bar)
            await page.evaluate("document.activeElement.blur(), scrollTo(0, 0)")
            for key in ["Tab"] * 50 + ["Shift+Tab"] * 50:
                await page.keyboard.press(key)
                if await page.evaluate("document.activeElement.matches('nav a, .filters a, #list li *')"):
                    hidden += await page.evaluate(HIDDEN)
    assert hidden == []


async def test_count_of_the_current_page_is_legible_in_forced_colours(filled: Filled) -> None:
    """The page's own grey on the system's highlight was not."""
    async with chromium() as browser, opened(browser, filled.service.address, Watch(), forced_colors="active") as page:
        await page.goto("/console/returns")
        entry = page.locator("nav [aria-current]")
        await entry.locator(".n", has_text="1").wait_for()
        colours = await entry.evaluate(
            "(one) => [one, one.firstElementChild].map((each) => getComputedStyle(each).color)"
        )
        assert colours[0] == colours[1]


async def test_paper_has_no_navigation(service: Service, facade: Facade) -> None:
    """It would take a quarter of each line. Nor has it what only a click would do; a return has its lines as text, as a
    field would cut a long reason off."""
    (id,) = await facade.submit(submission(new_id()))
    returns, reason = Returns(service, facade.http), "It doesn't focus in the cold. " * 20
    order = await returns.ordered({"a": 3})
    lines = [{"orderLineItemId": "a", "quantity": 1, "reason": reason}]
    (made,) = await facade.command("PUT", "/api/return", {"orderId": order, "lineItems": lines})
    async with chromium() as browser, opened(browser, service.address, Watch()) as page:
        await page.goto("/console/audit")
        await page.emulate_media(media="print")
        assert await page.locator("nav, .filters, button, input").filter(visible=True).count() == 0
        assert await page.locator("h1").is_visible()
        await page.goto(f"/console/reviews/{id}")
        assert await page.locator("#decide, main > details, button").filter(visible=True).count() == 0
        assert await page.get_by_role("heading", name="Decide").count() == 0
        await page.goto(f"/console/returns/{made['id']}")
        assert await page.locator("main").locator("input, select, button").filter(visible=True).count() == 0
        assert await page.get_by_role("cell", name=reason.strip()).is_visible()


async def test_right_to_left_names_keep_sentences_in_order(service: Service, facade: Facade) -> None:
    """An Arabic name must not move the numbers after it to its other side. A title begins where its text does."""
    name = f"كاميرا {new_id()}"
    text = "الصور واضحة جدا. " * 20
    (id,) = await facade.submit(submission(new_id(), 4, title="جودة", userName="محمد", EntityName=name, review=text))
    async with chromium() as browser, opened(browser, service.address, Watch()) as page:
        await page.goto(f"/console/reviews/{id}")
        edges = await page.evaluate(
            """() => {
              const [name, date] = ["b", "time"].map((each) => document.querySelector(`main header p ${each}`));
              return [name.getBoundingClientRect().right, date.getBoundingClientRect().left];
            }"""
        )
        assert edges[0] <= edges[1]
        right = "each => each.getBoundingClientRect().right"
        title, text = [await page.locator(each).evaluate(right) for each in ("h1", "#review .text")]
        assert title == text
        await page.goto(f"/console/queue?q={name}")
        title, text = [await page.locator(f"#list {each}").evaluate(right) for each in ("h2 bdi", ".text")]
        assert title == pytest.approx(text)
        # The key in the field covers no phrase.
        room = "each => each.getBoundingClientRect().right - parseFloat(getComputedStyle(each).paddingRight)"
        phrase, key = page.get_by_role("searchbox"), page.locator("form.search kbd")
        assert await phrase.evaluate(room) <= await key.evaluate("each => each.getBoundingClientRect().left")
