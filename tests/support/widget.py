"""The widget as shoppers use it: a service with reviews of a product, a shop's site, and actions on its pages."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Browser, FilePayload, Locator, Page

from tests.support.chromium import PATIENCE_MS as PATIENCE_MS
from tests.support.chromium import Watch, opened
from tests.support.facade import facade_of, new_id, submission
from tests.support.images import Images, picture
from tests.support.orders import Returns
from tests.support.service import Servers, Service, running_service
from tests.support.shop_page import ShopSite, shop_site
from tests.support.waiting import eventually

RATINGS: Final = [5, 4, 1, *[5, 4] * 6]
WORDS: Final = "Words that took an hour."
ALLOWED: Final = {"access-control-allow-origin": "*"}
"""Headers of a fake answer that pages of all sites may read."""

WIDE: Final = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


@dataclass(frozen=True)
class Filled:
    """A service that requires proof of work, a shop's site that embeds it, and a product with reviews."""

    service: Service
    site: ShopSite
    store: str
    product: str

    def stars(self, *products: str) -> str:
        """Elements with the stars of these products."""
        start = f'<plaudit-stars store="{self.store}" type="Product"'
        return "".join(f'{start} entity="{product}"></plaudit-stars>' for product in products)

    def show_elements(self, path: str, elements: str, **options: Any) -> str:
        """Publish a page with these elements. Returns its address."""
        return self.site.show(path, self.service.address, elements, **options)

    def show(self, path: str, product: str | None = None, *, attributes: str = "", **options: Any) -> str:
        """Publish a page with the widget. Returns its address."""
        element = f'<plaudit-reviews store="{self.store}" type="Product" entity="{product or self.product}"'
        return self.show_elements(path, f"{element} {attributes}></plaudit-reviews>", **options)


@asynccontextmanager
async def filled_service(servers: Servers, folder: Path) -> AsyncIterator[Filled]:
    """A service with a product of 15 reviews: the first one has photos, the third one a reply."""
    async with (
        running_service(servers, folder, PLAUDIT_STOREFRONT__CHECK="true") as service,
        facade_of(service) as facade,
        shop_site() as site,
    ):
        store, product = await facade.open_store(storefrontOrigins=[site.origin]), new_id("camera")
        photos = [await Images(facade.http).upload(picture((60, 40), "JPEG", colour)) for colour in ("teal", "navy")]
        first: dict[str, Any] = {"images": photos, "incentivized": True, "review": "Sharp, day and night. " * 50}
        given = [
            submission(product, rating, storeId=store, userId=f"u{n}", title=f"Title {n}", **(first if n == 0 else {}))
            for n, rating in enumerate(RATINGS)
        ]
        ids = await facade.submit_approved(*given)
        await facade.command("POST", f"/api/customerReviews/{ids[2]}/reply", {"text": "We are sorry.", "author": "Us"})
        await Returns(service, facade.http).ordered({product: 1}, storeId=store, customerId="u0")
        address = f"/storefront/v1/{store}/Product/{product}/reviews"
        await eventually(
            lambda: facade.get(address, verified="true", photos="true"), lambda page: len(page["results"]) == 1
        )
        yield Filled(service, site, store, product)


@asynccontextmanager
async def shopping(browser: Browser, address: str, watch: Watch | None = None, **options: Any) -> AsyncIterator[Page]:
    async with opened(browser, address, watch or Watch(), **options) as page:
        await page.goto(address)
        yield page


async def until_loaded(page: Page, heading: str = "Customer reviews") -> None:
    await page.get_by_role("heading", name=heading).wait_for()


async def open_form(page: Page) -> Locator:
    await until_loaded(page)
    await page.get_by_role("button", name="Write a review").click()
    await page.get_by_role("button", name="Send review").wait_for()
    return page.locator("plaudit-reviews form")


async def open_report(page: Page) -> Locator:
    await until_loaded(page)
    await page.get_by_role("button", name="Report", exact=True).first.click()
    dialog = page.get_by_role("dialog")
    await dialog.wait_for()
    return dialog


async def filled_form(page: Page, text: str = WORDS) -> Locator:
    """The form with four stars and this text."""
    form = await open_form(page)
    await form.get_by_role("radio", name="4 stars").press("Space")
    await form.get_by_label("Your review").fill(text)
    return form


def photo(name: str, content: bytes | None = None, kind: str = "image/png") -> FilePayload:
    """A file to choose, by default a small picture."""
    return {"name": name, "mimeType": kind, "buffer": content or picture()}


async def send(form: Locator) -> None:
    await form.get_by_role("button", name="Send review").click()


async def until_thanked(page: Page) -> None:
    await page.get_by_text("Your review will appear once it has been checked.").wait_for()


async def until_vote_counted(page: Page) -> None:
    await page.get_by_role("status").filter(has_text="your vote was counted").wait_for()


def titles(page: Page) -> Locator:
    return page.locator("plaudit-reviews h3")
