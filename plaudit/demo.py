"""`plaudit demo`: the specification's samples, driven through a running service, with each answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

import httpx
from rich.console import Console

from plaudit.config import Settings

_WAIT: Final = {"Prefer": "wait=10"}


class DemoError(Exception):
    """The service can't be reached or answered something else than the demonstration expects."""


class _Client:
    """Sends requests and shows them with their answers."""

    def __init__(self, client: httpx.AsyncClient, out: Console) -> None:
        self._client = client
        self._out = out

    async def send(
        self, title: str, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """Send one request, show both sides, and return the JSON of the answer. Raises DemoError on a failure."""
        self._out.print(f"\n[bold]{title}[/bold]")
        sent = "" if body is None else " " + json.dumps(body)
        preference = "".join(f"  ({name}: {value})" for name, value in (headers or {}).items())
        self._out.print(f"{method} {path}{preference}{sent}", markup=False)
        response = await self._client.request(method, path, json=body, headers=headers)
        self._out.print(f"-> {response.status_code} {response.text}", markup=False)
        if response.is_error:
            raise DemoError(f"{method} {path} was answered {response.status_code}: {response.text}")
        return response.json()


async def run_demo(settings: Settings, out: Console) -> None:
    """Submit, list, moderate, rate and delete; objects of this run alone are touched."""
    address = settings.http_address()
    product = f"demo-{uuid4().hex[:8]}"
    try:
        async with httpx.AsyncClient(base_url=address, timeout=30) as client:
            await _reviews(_Client(client, out), product)
    except httpx.TransportError as error:
        raise DemoError(f"Nothing answers at {address} ({error}). Start the service first: make up") from error
    out.print("\n[bold]Done.[/bold] Every answer above came from the running service.")


async def _reviews(service: _Client, product: str) -> None:
    reviews = [_review(product, user, rating) for user, rating in (("Ann", 3), ("Ben", 4))]
    submitted = await service.send("Submit two reviews", "POST", "/api/customerReviews", reviews, _WAIT)
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
    await service.send("Find those that wait for moderation", "POST", "/api/customerReviews/reviewList", waiting)
    rating = {"entityIds": [product], "entityType": "Product"}
    await service.send("Approve both", "POST", "/api/customerReviews/approve", [first, second], _WAIT)
    await service.send("Ask for the rating", "POST", "/api/rating/entityRating", rating)
    await service.send("Reset one", "POST", "/api/customerReviews/reset", [first], _WAIT)
    await service.send("The rating has followed", "POST", "/api/rating/entityRating", rating)
    await service.send("Reject it", "POST", "/api/customerReviews/reject", [first], _WAIT)
    await service.send("Delete both", "DELETE", "/api/customerReviews", {"ids": [first, second]}, _WAIT)
    await service.send("Nothing is left", "POST", "/api/rating/entityRating", rating)


def _review(product: str, user: str, rating: int) -> dict[str, Any]:
    return {
        "storeId": "Electronics",
        "userId": f"{product}-{user.lower()}",
        "userName": user,
        "EntityId": product,
        "EntityType": "Product",
        "EntityName": f"Camera {product}",
        "title": "As good as they say",
        "review": "Sharp pictures, and the battery lasts.",
        "rating": rating,
    }
