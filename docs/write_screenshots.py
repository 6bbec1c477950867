"""Write docs/console/*.png and docs/storefront/*.png: the screens of a running service, light and dark.

`make up`, then `make screenshots`, or with `ARGS=storefront` a part of them. The service gets reviews and orders
first: it is one to try things with.
"""

import asyncio
import io
import os
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import httpx
from PIL import Image
from playwright.async_api import Browser, Page, ViewportSize, async_playwright

from devservers.waiting import until
from domain.timestamps import timestamp
from messaging.envelope import Envelope
from messaging.kafka.publisher import Publisher
from messaging.topics import Topic
from plaudit.config import Settings
from plaudit.terminal import Terminal
from plaudit.tools.demo_shop.fill import run_fill

FOLDER: Final = Path(__file__).parent
ADDRESS: Final = f"http://127.0.0.1:{os.environ.get('PLAUDIT_HTTP__PORT', '8080')}"
SCHEMES: Final[Sequence[Literal["light", "dark"]]] = ("light", "dark")
SIZE: Final[ViewportSize] = {"width": 1360, "height": 860}
PHONE: Final[ViewportSize] = {"width": 390, "height": 844}
SHOP_SIZES: Final[dict[str, ViewportSize]] = {"": {"width": 1280, "height": 1000}, "-phone": PHONE}
DRAWN_MS: Final = 700
"""Milliseconds until a page has drawn what it loads late."""

OBJECTS: Final = {"camera-3": "Field Camera 3", "lamp-77": "Trail Lamp", "kettle-17": "Kettle 1.7"}
REVIEWS: Final = (
    (
        "camera-3",
        2,
        "Battery gone after a month",
        "It held four hours at first, then one. The shop answered late.",
        "Ann K.",
    ),
    ("lamp-77", 5, "Best deal, see my page", "You can have the same for half at www.my-best-shop.example!!!", "Promo"),
    (
        "lamp-77",
        4,
        "Leicht und hell",
        "Nach drei Wochen im Regen noch dicht. Der Schalter ist schwer zu finden.",
        "J. Weber",
    ),
    ("kettle-17", 1, None, "never again", None),
    (
        "camera-3",
        5,
        "On three mountains by now",
        "Solid in any weather, and the strap holds. I would buy it again.",
        "Mira",
    ),
    ("kettle-17", 4, "Rapide et silencieuse", "L'eau est chaude en deux minutes, mais le couvercle ferme mal.", "Luc"),
)
ORDERS: Final = (
    ("CO-2041", "Complete", 0, "Ann K.", [("camera-3", 1, 249.0), ("lamp-77", 2, 39.5)]),
    ("CO-2042", "Complete", 4, "Mira", [("camera-3", 1, 249.0)]),
    ("CO-2043", "Shipped", 5, "Luc", [("kettle-17", 1, 64.9)]),
)
"""The number, status and customer of each order, and the product, quantity and price of each of its lines."""

RULES: Final = [{"id": "links", "kind": "links", "outcome": "hold"}]
PATHS: Final = {
    "queue": "/console/queue",
    "reviews": "/console/reviews",
    "objects": "/console/objects",
    "object": "/console/objects/Product/camera-3",
    "returns": "/console/returns",
    "orders": "/console/orders",
    "reminders": "/console/reminders",
    "stores": "/console/stores",
    "store": "/console/stores/Electronics",
    "templates": "/console/templates",
    "template": "/console/templates/OrderReviewRequest",
    "entity-types": "/console/entity-types",
    "audit": "/console/audit",
    "keys": "/console/keys",
    "dead-letters": "/console/dead-letters",
    "health": "/console/health",
}


async def fill(http: httpx.AsyncClient) -> str:
    """Give the service something to show. Returns the id of a review that waits."""
    bodies: list[dict[str, Any]] = [
        {"storeId": "Electronics", "userId": f"u-{n}", "userName": name, "EntityId": id, "EntityType": "Product",
         "EntityName": OBJECTS[id], "title": title, "review": text, "rating": rating}
        for n, (id, rating, title, text, name) in enumerate(REVIEWS)
    ]  # fmt: skip
    waiting = {"Prefer": "wait=10"}
    once = {**waiting, "Idempotency-Key": "screenshots"}
    await http.put("/api/stores/Electronics", json={"settings": {"moderationRules": RULES}}, headers=waiting)
    answer = (await http.post("/api/customerReviews", json=bodies, headers=once)).raise_for_status().json()
    await http.post("/api/customerReviews/approve", json=answer["ids"][4:], headers=once)
    await publish_orders()

    async def has_order() -> bool:
        return (await http.get("/api/return/available-quantities/CO-2041")).status_code == httpx.codes.OK

    await until(has_order)
    line = {"orderLineItemId": "2", "quantity": 1, "reason": "One is enough"}
    await http.post("/api/return", json={"orderId": "CO-2041", "lineItems": [line]}, headers=once)
    return str(answer["ids"][0])


async def publish_orders() -> None:
    """Publish the orders as an upstream system does."""
    settings, now = Settings(), timestamp(datetime.now(UTC))
    name, envelope = settings.topics.name(Topic.ORDER_EVENTS), Envelope("/plaudit/screenshots")
    messages = []
    for number, status, customer, customer_name, lines in ORDERS:
        items = [
            {"id": str(n), "productId": id, "name": OBJECTS[id], "quantity": quantity, "price": price}
            for n, (id, quantity, price) in enumerate(lines, start=1)
        ]
        order = {
            "id": number,
            "number": number,
            "status": status,
            "storeId": "Electronics",
            "customerId": f"u-{customer}",
            "customerName": customer_name,
            "currency": "EUR",
            "createdDate": now,
            "modifiedDate": now,
            "items": items,
        }
        messages.append(envelope.wrap(name, number, Topic.ORDER_EVENTS.value, order))
    publisher = Publisher(settings.kafka_connection())
    try:
        await publisher.publish(messages)
    finally:
        await publisher.stop()


async def shoot(page: Page, name: str, path: str) -> None:
    """Write one picture of the console."""
    await page.goto(ADDRESS + path)
    await page.get_by_text("without JavaScript").wait_for(state="detached")
    await page.wait_for_timeout(DRAWN_MS)
    await page.screenshot(path=FOLDER / "console" / f"{name}.png")


async def shoot_console(browser: Browser) -> None:
    """All pictures of the console."""
    async with httpx.AsyncClient(base_url=ADDRESS, timeout=60) as http:
        paths = {**PATHS, "review": f"/console/reviews/{await fill(http)}"}
    for scheme in SCHEMES:
        page = await alone(await browser.new_page(color_scheme=scheme, viewport=SIZE))
        for name, path in paths.items():
            await shoot(page, f"{name}-{scheme}", path)
    page = await alone(await browser.new_page(viewport=PHONE))
    await shoot(page, "queue-phone", "/console/queue")


async def alone(page: Page) -> Page:
    """The page, which doesn't say what it looks at: no picture shows the claim of another one."""
    await page.route("**/queue/claims", lambda route: route.abort())
    return page


async def shoot_storefront(browser: Browser) -> None:
    """The demo shop: its list, a product, its reviews and the form."""
    await run_fill(Settings(), Terminal(), 500)
    for scheme in SCHEMES:
        for suffix, size in SHOP_SIZES.items():
            page = await browser.new_page(color_scheme=scheme, viewport=size)
            for name, path in (("list", "/demo"), ("product", "/demo/ridgeline"), ("reviews", "/demo/sora#reviews")):
                await page.goto(ADDRESS + path, wait_until="networkidle")
                if name == "reviews":
                    await page.get_by_role("button", name="With photos").click()
                await keep(page, f"{name}{suffix}-{scheme}")
            await page.get_by_role("button", name="Write a review").click()
            await page.get_by_role("radio").nth(3).check(force=True)
            await page.get_by_label("Title").fill("Pours like a dream")
            await page.get_by_label("Your review").fill("Not a drop on the table, and still hot at the third cup.")
            await page.get_by_label("Your review").scroll_into_view_if_needed()
            await keep(page, f"form{suffix}-{scheme}")


async def keep(page: Page, name: str) -> None:
    """Write one picture of the shop, in as few colours as it needs."""
    await page.wait_for_load_state("networkidle")
    await page.wait_for_timeout(DRAWN_MS)
    picture = Image.open(io.BytesIO(await page.screenshot())).convert("RGB")
    picture.quantize(256, kmeans=3).save(FOLDER / "storefront" / f"{name}.png", optimize=True)


async def main() -> None:
    """Write all of them, or those that are asked for."""
    wanted = sys.argv[1:] or ["console", "storefront"]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, shoot_all in (("console", shoot_console), ("storefront", shoot_storefront)):
            if name in wanted:
                await shoot_all(browser)
        await browser.close()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
