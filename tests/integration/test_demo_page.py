"""The demo shop at `/demo`: access to it, its content, its security policy and accessibility."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Route

from storefront.demo import LANGUAGES
from storefront.demo_products import PRODUCTS, STORE_ID
from tests.support.chromium import Watch, chromium, opened, violations
from tests.support.facade import facade_of, submission
from tests.support.service import Servers, Service, running_service, service_without_servers
from tests.support.waiting import eventually

pytestmark = pytest.mark.long

FILL = "plaudit demo --fill 500"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'none'; require-trusted-types-for 'script'"
)


SHIFTS = """async () => {
    const found = [];
    const observer = new PerformanceObserver((list) => found.push(...list.getEntries()));
    observer.observe({ type: 'layout-shift', buffered: true });
    await new Promise((done) => setTimeout(done, 300));
    return found.map((each) => each.value);
}"""


def parts_of(page: str) -> list[str]:
    """The classes of the parts below a product, in their order."""
    return re.findall(r'<section [^>]*class="(\w+)"', page)


@pytest.fixture(scope="module")
async def shop(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    async with running_service(servers, tmp_path_factory.mktemp("shop")) as service:
        yield service


async def test_empty_shop_explains_how_to_fill_it(shop: Service) -> None:
    async with shop.client() as http:
        front = await http.get("/demo")
        assert (front.status_code, front.headers["content-security-policy"]) == (200, POLICY)
        assert FILL in front.text
        for product in PRODUCTS:
            page = await http.get(f"/demo/{product.id}", params={"lang": '"><script>'})
            assert (page.status_code, page.headers["content-security-policy"]) == (200, POLICY)
            assert f'entity="{product.id}" lang="en"' in page.text
            assert parts_of(page.text) == ["more", "reviews"]
            picture = await http.get(f"/demo/static/{product.kind}.svg")
            assert (picture.status_code, picture.headers["content-type"]) == (200, "image/svg+xml")
        for path in ("/demo/nothing", f"/demo/{PRODUCTS[0].id}/"):
            page = await http.get(path)
            assert (page.status_code, page.headers["content-security-policy"]) == (404, POLICY)
            assert "There is no such page" in page.text
        assert (await http.get("/demo/")).headers["location"] == "/demo"


async def test_language_links_keep_reminder_token(shop: Service) -> None:
    async with shop.client() as http:
        for kept in ({"token": 'a.b&lang=x#"><script>'}, {}):
            page = (await http.get(f"/demo/{PRODUCTS[0].id}", params={**kept, "lang": "de"})).text
            links = [urlsplit(unescape(link)) for link in re.findall(r'<a href="(\?[^"]*)"', page)]
            named = {key: [value] for key, value in kept.items()}
            assert [parse_qs(link.query) for link in links] == [{"lang": [tag], **named} for tag in LANGUAGES]
            assert {link.fragment for link in links} == {"reviews"}


async def test_no_shop_if_authentication_is_required(servers: Servers, tmp_path: Path) -> None:
    async with running_service(servers, tmp_path, PLAUDIT_AUTH__MODE="api_key") as service, service.client() as http:
        for path in ("/demo", f"/demo/{PRODUCTS[0].id}", "/demo/static/shop.css"):
            assert (await http.get(path)).status_code == 404


async def test_products_are_shown_without_mongodb(servers: Servers, tmp_path: Path) -> None:
    async with service_without_servers(servers, tmp_path) as service, service.client() as http:
        for path in ("/demo", f"/demo/{PRODUCTS[0].id}"):
            page = await http.get(path)
            assert (page.status_code, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
            assert int(page.headers["retry-after"]) > 0
            assert all(product.name in page.text for product in PRODUCTS)
            assert "Please load this page again in a minute." in page.text
            assert FILL not in page.text


async def test_hasty_visitor_is_told_to_wait(servers: Servers, tmp_path: Path) -> None:
    limit = {"PLAUDIT_HTTP__RATE_PER_SECOND": "0.01"}
    async with service_without_servers(servers, tmp_path, **limit) as service, service.client() as http:
        await http.get("/demo")
        page = await http.get("/demo")
        assert (page.status_code, page.headers["content-type"]) == (429, "text/html; charset=utf-8")
        assert "Please wait a minute" in page.text
        assert int(page.headers["retry-after"]) > 0


@pytest.mark.slow
async def test_nothing_moves_on_a_phone_when_reviews_load(shop: Service) -> None:
    async def slow(route: Route) -> None:
        await asyncio.sleep(0.5)
        await route.continue_()

    async with facade_of(shop) as facade:
        await facade.open_store(STORE_ID)
    phone = {"width": 390, "height": 844}
    async with chromium() as browser, opened(browser, shop.address, Watch(), viewport=phone) as page:
        await page.route("**/storefront/v1/**", slow)
        await page.goto(f"/demo/{PRODUCTS[1].id}#reviews")
        await page.locator("plaudit-reviews button").first.wait_for(timeout=90_000)
        assert await page.evaluate(SHIFTS) == []


@pytest.mark.slow
async def test_page_has_reviews_for_search_engines(shop: Service) -> None:
    hostile = "</script><script>alert(1)</script>"
    async with facade_of(shop) as facade:
        await facade.open_store(STORE_ID)
        for product in PRODUCTS:
            await facade.submit_approved(submission(product.id, 4, storeId=STORE_ID, title=hostile))

        async def page() -> str:
            return (await facade.http.get(f"/demo/{PRODUCTS[0].id}")).text

        html = await eventually(page, lambda text: "ld+json" in text and FILL not in text)
        assert parts_of(html) == ["reviews", "more"]
        (found,) = re.findall(r'<script type="application/ld\+json">(.*?)</script>', html, re.DOTALL)
        assert json.loads(found)["aggregateRating"]["reviewCount"] == 1
        assert json.loads(found)["review"][0]["name"] == hostile


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_shop_is_accessible_and_follows_its_policy(shop: Service, scheme: str) -> None:
    async with facade_of(shop) as facade:
        await facade.open_store(STORE_ID)
    async with chromium() as browser:
        watch = Watch()
        async with opened(browser, shop.address, watch, color_scheme=scheme) as page:
            page.set_default_timeout(90_000)
            for path in ("/demo", f"/demo/{PRODUCTS[1].id}", f"/demo/{PRODUCTS[2].id}?lang=ar"):
                await page.goto(path)
                await page.locator("plaudit-stars svg").first.wait_for()
                if path != "/demo":
                    await page.locator("plaudit-reviews button").first.wait_for()
                assert await violations(page) == []
                for width in (320, 1280):
                    await page.set_viewport_size({"width": width, "height": 800})
                    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert watch.complaints == []
        assert watch.hosts == {"127.0.0.1"}
