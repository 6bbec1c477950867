"""`plaudit demo --fill`: creates a demo shop with reviews through the public interface of a running service."""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

import httpx

from devservers.waiting import until
from domain.delivery import in_parts
from domain.quantities import quantity
from domain.reviews import ReviewStatus
from domain.timestamps import moment_in
from messaging.envelope import Envelope
from messaging.kafka.publisher import Publisher
from plaudit.config import Settings
from plaudit.errors import CommandError
from plaudit.processes.connections import connected
from plaudit.terminal import Terminal
from plaudit.tools.demo import running_service
from plaudit.tools.demo_shop.messages import DemoMessages
from plaudit.tools.demo_shop.reviews import DemoReview, demo_reviews
from plaudit.tools.servers import check_topics
from storefront.demo_products import STORE_ID, STORE_NAME

_BATCH: Final = 500
_CONCURRENCY: Final = 4
_SCENES: Final = 5
"""Number of photos for each kind of product, which customers add to their reviews."""

_PATIENCE_S: Final = 120
_POLL_S: Final = 0.2


async def run_fill(settings: Settings, out: Terminal, count: int) -> None:
    """Fill a running service with the store Demo, three products and `count` reviews.

    All ids are fixed: a repetition changes nothing, and a larger `count` adds the missing reviews. Returns once the
    reviews and their ratings are stored. Raises CommandError: the service isn't available, or takes too long.
    """
    async with running_service(settings, out) as client, connected(settings) as (_, publisher):
        await _Fill(client, publisher, settings, out).run(count)
    address = f"{settings.http_address()}/demo"
    out.set_result({"address": address, "reviews": count})
    out.print(f"The shop is open: {address}", style="bold")


@dataclass(frozen=True, slots=True)
class _Fill:
    client: httpx.AsyncClient
    publisher: Publisher
    settings: Settings
    out: Terminal

    async def run(self, count: int) -> None:
        await self._open_store()
        day = await self._day()
        messages = DemoMessages(self.settings.topics, Envelope("/plaudit/demo"), day, str(self.client.base_url))
        await check_topics(self.settings, messages.topics_used)
        await self.publisher.publish(messages.of_products())
        reviews = demo_reviews(count)
        for batch in in_parts(reviews, _BATCH):
            await self._publish_batch(batch, messages)
        self._print_summary(reviews)

    async def _publish_batch(self, reviews: Sequence[DemoReview], messages: DemoMessages) -> None:
        """Publish a batch of reviews, and wait until the service has stored it."""
        known = await self._known(reviews)
        missing = [review for review in reviews if review.id not in known]
        photos = await self._upload(missing)
        command = f"demo-{uuid4()}"
        await self.publisher.publish([each for review in reviews for each in messages.orders(review)])
        await self.publisher.publish([messages.submission(review, photos.get(review.id, ())) for review in missing])
        await self.publisher.publish([each for review in reviews for each in messages.past(review, command)])
        decided = sum(review.status is not ReviewStatus.NEW for review in reviews)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await until(partial(self._has_arrived, reviews, command, decided))
        except TimeoutError:
            there = len(await self._known(reviews))
            raise CommandError(
                f"Stored only {there} of {quantity(len(reviews), 'review')} in {_PATIENCE_S} seconds. Run `plaudit "
                "doctor` to check that a worker is running. Deleted reviews are not stored again."
            ) from None

    async def _has_arrived(self, reviews: Sequence[DemoReview], command: str, decided: int) -> bool:
        await asyncio.sleep(_POLL_S)
        if decided:
            answer = await self.client.get(f"/api/commands/{command}")
            if answer.status_code != httpx.codes.OK:
                return False
            # The results include decisions that arrived before their review: accepted, and not applied yet.
            body = answer.json()
            if body["outcome"] == "accepted" or len(body["results"]) < decided:
                return False
        return len(await self._known(reviews)) == len(reviews)

    async def _open_store(self) -> None:
        address = str(self.client.base_url).rstrip("/")
        port = urlsplit(address).port or 80
        origins = {address, f"http://127.0.0.1:{port}", f"http://localhost:{port}"}
        known = await self.client.get(f"/api/stores/{STORE_ID}")
        if known.is_success and origins <= set(known.json()["settings"]["storefrontOrigins"]):
            return  # keep the settings, which somebody may have changed
        settings = {
            "reviewsEnabled": True,
            "anonymousReviewsAllowed": True,
            "purchaseRequired": False,
            "ratingCalculationMethod": "average",
            "reviewUrl": f"{address}/demo/{{productId}}?token={{token}}",
            "storefrontOrigins": sorted(origins),
            "moderationRules": [{"id": "links", "kind": "links", "outcome": "hold"}],
        }
        store = {"name": STORE_NAME, "settings": settings}
        await self._request("PUT", f"/api/stores/{STORE_ID}", json=store, headers={"Prefer": "wait=30"})

    async def _day(self) -> datetime:
        """The day that ages are counted from: that of the first run, so that dates don't change."""
        (first,) = demo_reviews(1)
        answer = await self.client.get(f"/api/customerReviews/{first.id}")
        if answer.status_code == httpx.codes.OK:
            return moment_in(answer.json()["createdDate"]) + first.age
        return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)

    async def _known(self, reviews: Sequence[DemoReview]) -> Collection[str]:
        wanted = {"ids": [review.id for review in reviews], "take": len(reviews), "withTotal": False}
        found = await self._request("POST", "/api/customerReviews/reviewList", json=wanted)
        return {row["id"] for row in found["results"]}

    async def _upload(self, reviews: Sequence[DemoReview]) -> dict[str, Sequence[str]]:
        """Upload the photos of these reviews; returns their ids by review id."""
        slots, folder = asyncio.Semaphore(_CONCURRENCY), files("plaudit.tools.demo_shop") / "photos"

        async def upload(review: DemoReview, number: int) -> str:
            async with slots:
                scene = (int(review.id.rpartition("-")[2]) + number) % _SCENES
                photo = (folder / f"{review.product.kind}-{scene}.jpg").read_bytes()
                headers = {"Content-Type": "image/jpeg", "Idempotency-Key": f"{review.id}-photo-{number}"}
                query = {"userId": review.author_id} if review.author_id else {}
                sent = await self._request("POST", "/api/images", content=photo, headers=headers, params=query)
                return str(sent["id"])

        with_photos = [review for review in reviews if review.photos]
        ids = await asyncio.gather(
            *(asyncio.gather(*(upload(review, number) for number in range(review.photos))) for review in with_photos)
        )
        return {review.id: found for review, found in zip(with_photos, ids, strict=True)}

    async def _request(self, method: str, path: str, **options: Any) -> Any:
        answer = await self.client.request(method, path, **options)
        if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise CommandError("The demo shop needs a service without authentication: PLAUDIT_AUTH__MODE=none.")
        if not answer.is_success:
            raise CommandError(f"{method} {path} returned {answer.status_code}: {answer.text[:500]}")
        return answer.json()

    def _print_summary(self, reviews: Sequence[DemoReview]) -> None:
        counts = Counter(review.status for review in reviews)
        languages = len({review.language for review in reviews})
        photos = sum(review.photos for review in reviews)
        self.out.print(
            f"The store {STORE_ID} has {quantity(len(reviews), 'review')} in {quantity(languages, 'language')}, with "
            f"{quantity(photos, 'photo')}: {counts[ReviewStatus.APPROVED]} approved, "
            f"{counts[ReviewStatus.NEW]} waiting for a moderator, {counts[ReviewStatus.REJECTED]} rejected."
        )
