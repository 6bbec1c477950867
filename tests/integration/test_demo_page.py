"""The demo shop at `/demo`: where it is served, and that it is as strict as it asks others to be."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from storefront.demo_products import PRODUCTS
from tests.support.chromium import Watch, chromium, opened, violations
from tests.support.service import Servers, Service, running_service

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'none'; require-trusted-types-for 'script'"
)


async def test_the_shop_is_there_and_asks_for_little(http: httpx.AsyncClient) -> None:
    front = await http.get("/demo")
    assert (front.status_code, front.headers["content-security-policy"]) == (200, POLICY)
    assert "plaudit demo --fill 500" in front.text
    for product in PRODUCTS:
        page = await http.get(f"/demo/{product.id}", params={"lang": '"><script>'})
        assert (page.status_code, page.headers["content-security-policy"]) == (200, POLICY)
        assert f'entity="{product.id}" lang="en"' in page.text
        picture = await http.get(f"/demo/static/{product.kind}.svg")
        assert (picture.status_code, picture.headers["content-type"]) == (200, "image/svg+xml")
    assert (await http.get("/demo/nothing")).status_code == 404


async def test_there_is_no_shop_where_callers_have_to_say_who_they_are(servers: Servers, tmp_path: Path) -> None:
    async with running_service(servers, tmp_path, PLAUDIT_AUTH__MODE="api_key") as service, service.client() as http:
        for path in ("/demo", f"/demo/{PRODUCTS[0].id}", "/demo/static/shop.css"):
            assert (await http.get(path)).status_code == 404


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_breaks_no_rule_of_its_own(service: Service, scheme: str) -> None:
    async with chromium() as browser:
        watch = Watch()
        async with opened(browser, service.address, watch, color_scheme=scheme) as page:
            for path in ("/demo", f"/demo/{PRODUCTS[1].id}", f"/demo/{PRODUCTS[2].id}?lang=ar"):
                await page.goto(path)
                await page.wait_for_load_state("networkidle")
                assert await violations(page) == []
                for width in (320, 1280):
                    await page.set_viewport_size({"width": width, "height": 800})
                    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert watch.complaints == []
        assert watch.hosts == {"127.0.0.1"}
