"""`plaudit demo`: runs samples of the main use cases through a running service, and prints each answer."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import httpx

from devservers.waiting import until
from domain.timestamps import timestamp
from messaging.envelope import Envelope
from messaging.kafka.publisher import Publisher
from messaging.topics import Topic
from plaudit.config import Settings
from plaudit.errors import CommandError
from plaudit.terminal import Terminal

_WAIT: Final = {"Prefer": "wait=10"}
_PATIENCE_S: Final = 60

_START_S: Final = 300
"""Seconds to wait for a `plaudit up` that is starting."""


class _Client:
    """Sends requests, and prints them with their answers."""

    def __init__(self, client: httpx.AsyncClient, out: Terminal) -> None:
        self._client = client
        self._out = out
        self.steps: list[dict[str, Any]] = []
        """Each request with its answer."""

    def title(self, text: str) -> None:
        """Print a heading."""
        self._out.print(f"\n{text}", style="bold")

    async def send(
        self,
        title: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        expected: int = 200,
    ) -> Any:
        """Send a request, print it with its answer, and return the JSON of the answer.

        Raises CommandError: the status isn't `expected`.
        """
        self.title(title)
        sent = "" if body is None else " " + json.dumps(body)
        preference = "".join(f"  ({name}: {value})" for name, value in (headers or {}).items())
        self._out.print(f"{method} {path}{preference}{sent}")
        response = await self._client.request(method, path, json=body, headers=headers)
        self._out.print(f"-> {response.status_code} {response.text}")
        if response.status_code == httpx.codes.UNAUTHORIZED:
            raise CommandError("The demo needs a service without authentication: PLAUDIT_AUTH__MODE=none.")
        status, known = response.status_code, dict[str, Any]()
        if status == httpx.codes.ACCEPTED and headers:  # a busy machine may take longer than the wait
            status, known = await self._outcome(response.json()["commandId"])
        if status != expected:
            raise CommandError(f"{method} {path} returned {status} instead of {expected}: {known or response.text}")
        answer = {**response.json(), **known} if known else response.json()
        step = {"title": title, "method": method, "path": path, "body": body, "status": status}
        self.steps.append({**step, "answer": answer})
        return answer

    async def _outcome(self, command_id: str) -> tuple[int, dict[str, Any]]:
        """Wait for the outcome of a command and print it; returns its HTTP status and body.

        Raises CommandError: none comes in time.
        """
        path = f"/api/commands/{command_id}"
        state: dict[str, Any] = {}

        async def is_known() -> bool:
            response = await self._client.get(path)
            state.update(response.json() if response.is_success else {})
            return bool(state.get("outcome", "accepted") != "accepted")

        await _wait_until(is_known, _PATIENCE_S, _no_answer(path))
        self._out.print(f"GET {path}\n-> {json.dumps(state)}")
        return httpx.codes.CONFLICT if state["outcome"] == "refused" else httpx.codes.OK, state

    async def publish(self, settings: Settings, topic: Topic, key: str, value: dict[str, Any]) -> None:
        """Publish to Kafka as an upstream system would."""
        name = settings.topics.name(topic)
        self.title(f"An upstream system publishes to {name}")
        self._out.print(json.dumps(value))
        publisher = Publisher(settings.kafka_connection())
        try:
            await publisher.publish([Envelope("/plaudit/demo").wrap(name, key, topic.value, value)])
        finally:
            await publisher.stop()

    async def wait_until_found(self, path: str) -> None:
        """Wait until a path answers 200. Raises CommandError: it doesn't in time."""

        async def found() -> bool:
            return (await self._client.get(path)).status_code == httpx.codes.OK

        await _wait_until(found, _PATIENCE_S, _no_answer(path))


def _no_answer(path: str) -> str:
    return (
        f"GET {path} has returned nothing for {_PATIENCE_S} seconds. Run `plaudit doctor` to check that a worker is "
        "running."
    )


async def _wait_until(condition: Callable[[], Awaitable[bool]], seconds: float, error: str) -> None:
    """Wait until the condition is true. Raises CommandError with this message: it isn't in time."""
    try:
        async with asyncio.timeout(seconds):
            await until(condition)
    except TimeoutError:
        raise CommandError(error) from None


@asynccontextmanager
async def running_service(settings: Settings, out: Terminal) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the running service; waits for a `plaudit up` that is starting. Raises CommandError: it doesn't
    become ready in time, or nothing answers."""
    # With other servers, it is another service.
    if not (settings.mongo.uri and settings.kafka.bootstrap_servers) and settings.is_up_starting():
        out.print(f"Waiting until the `plaudit up` in {settings.data} is ready")

        async def has_started() -> bool:
            return not settings.is_up_starting()

        late = f"The `plaudit up` in {settings.data} is not ready after {_START_S} seconds. Run this again once it is."
        await _wait_until(has_started, _START_S, late)
    address = settings.http_address()
    try:
        # Without proxies of the environment: they are for the internet.
        async with httpx.AsyncClient(base_url=address, timeout=30, trust_env=False) as client:
            yield client
    except httpx.TransportError as error:
        why = error or type(error).__name__
        raise CommandError(f"No service answers at {address} ({why}). Start it first: make up") from error


async def run_demo(settings: Settings, out: Terminal) -> None:
    """Run the samples of reviews, ratings, orders and returns, with objects of this run alone."""
    product = f"demo-{uuid4().hex[:8]}"
    async with running_service(settings, out) as client:
        service = _Client(client, out)
        await _reviews(service, product)
        await _orders(service, settings, product)
        out.set_result(service.steps)
    out.print("\nDone.", style="bold", end=" ")
    out.print("All responses above came from the running service.")


async def _reviews(service: _Client, product: str) -> None:
    reviews = [_review(product, "Electronics", user, rating) for user, rating in (("Ann", 3), ("Ben", 4))]
    submitted = await service.send("Submit two reviews", "POST", "/api/customerReviews", reviews, headers=_WAIT)
    first, second = submitted["ids"]
    everything = {"reviewStatus": None, "sort": "", "take": 20, "skip": 0}
    await service.send("List reviews of all statuses", "POST", "/api/customerReviews/reviewList", everything)
    waiting = {
        "reviewStatus": "New",
        "entityType": "Product",
        "searchPhrase": product,
        "sort": "createdDate:desc",
        "take": 20,
        "skip": 0,
    }
    await service.send("List those that wait for moderation", "POST", "/api/customerReviews/reviewList", waiting)
    rating = {"entityIds": [product], "entityType": "Product"}
    await service.send("Approve both", "POST", "/api/customerReviews/approve", [first, second], headers=_WAIT)
    await service.send(
        "Reject the first one, still seen as new by somebody else: refused",
        "POST",
        "/api/customerReviews/reject?expectedStatus=New",
        [first],
        headers=_WAIT,
        expected=409,
    )
    await service.send("Ask for the rating", "POST", "/api/rating/entityRating", rating)
    await service.send("Reset one", "POST", "/api/customerReviews/reset", [first], headers=_WAIT)
    await service.send("The rating has changed", "POST", "/api/rating/entityRating", rating)
    await service.send("Reject it", "POST", "/api/customerReviews/reject", [first], headers=_WAIT)
    deleted = await service.send(
        "Delete both", "DELETE", "/api/customerReviews", {"ids": [first, second]}, headers=_WAIT
    )
    await service.send("Get its outcome later", "GET", f"/api/commands/{deleted['commandId']}")
    await service.send("Nothing is left", "POST", "/api/rating/entityRating", rating)


async def _orders(service: _Client, settings: Settings, product: str) -> None:
    store, order = f"{product}-shop", f"{product}-order"
    rules = {"name": "Demo shop", "settings": {"reviewsEnabled": True, "purchaseRequired": True}}
    await service.send("A store for buyers only", "PUT", f"/api/stores/{store}", rules, headers=_WAIT)
    review = [_review(product, store, "Ann", 5)]
    await service.send(
        "Submit a review by Ann, who has bought nothing: refused", "POST", "/api/customerReviews", review, expected=403
    )
    now = timestamp(datetime.now(UTC))
    event = {
        "id": order,
        "number": "CO-1",
        "status": "Complete",
        "storeId": store,
        "customerId": review[0]["userId"],
        "customerName": "Ann",
        "customerEmail": "ann@example.org",
        "currency": "EUR",
        "createdDate": now,
        "modifiedDate": now,
        "items": [{"id": "line-1", "productId": product, "name": "Camera", "quantity": 2, "price": 249.5}],
    }
    await service.publish(settings, Topic.ORDER_EVENTS, order, event)
    await service.wait_until_found(f"/api/return/available-quantities/{order}")
    await service.send(
        "Submit it again after her order: accepted", "POST", "/api/customerReviews", review, headers=_WAIT
    )
    wanted = {"orderId": order, "lineItems": [{"orderLineItemId": "line-1", "quantity": 1, "reason": "Too heavy"}]}
    await service.send("She returns one of two", "POST", "/api/return", wanted, headers=_WAIT)
    search = {"orderId": order, "sort": "Ascending", "skip": 0, "take": 20}
    await service.send("The return with its order", "POST", "/api/return/search", search)
    await service.send("What can still be returned", "GET", f"/api/return/available-quantities/{order}")
    wanted["lineItems"] = [{"orderLineItemId": "line-1", "quantity": 2, "reason": "All of them"}]
    await service.send("Return two more: too many", "POST", "/api/return", wanted, expected=422)


def _review(product: str, store: str, user: str, rating: int) -> dict[str, Any]:
    return {
        "storeId": store,
        "userId": f"{product}-{user.lower()}",
        "userName": user,
        "EntityId": product,
        "EntityType": "Product",
        "EntityName": f"Camera {product}",
        "title": "As good as they say",
        "review": "Sharp pictures, and the battery lasts.",
        "rating": rating,
    }
