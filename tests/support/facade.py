"""The facade as its clients use it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import httpx

from .service import Json, Service
from .waiting import eventually

REVIEWS = "/api/customerReviews"
WAIT = {"Prefer": "wait=25"}


def new_id(kind: str = "camera") -> str:
    """An id that no other test has."""
    return f"{kind}-{uuid4().hex[:10]}"


def submission(entity_id: str, rating: float = 4, **fields: Any) -> Json:
    """A review as it is submitted."""
    return {
        "userId": "anna",
        "userName": "Anna Berg",
        "EntityId": entity_id,
        "EntityType": "Product",
        "EntityName": f"Camera {entity_id}",
        "title": "As good as they say",
        "review": "Sharp pictures, and the battery lasts.",
        "rating": rating,
        **fields,
    }


@dataclass(frozen=True, slots=True)
class Facade:
    """Requests that must succeed, and what is of interest in their answers."""

    http: httpx.AsyncClient

    async def command(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> list[Json]:
        """Send a command, wait until it has been applied, and return its results."""
        response = await self.http.request(method, path, json=body, headers={**WAIT, **(headers or {})})
        assert response.status_code == 200, response.text
        results: list[Json] = response.json()["results"]
        return results

    async def submit(self, *reviews: Json) -> list[str]:
        """Submit reviews; they are in the list when this returns."""
        results = await self.command("POST", REVIEWS, list(reviews))
        assert {result["outcome"] for result in results} == {"applied"}
        return [result["id"] for result in results]

    async def moderate(self, action: str, *ids: str) -> list[str]:
        """Moderate reviews; the ratings have followed when this returns. Returns the outcomes."""
        if action == "delete":
            results = await self.command("DELETE", REVIEWS, {"ids": list(ids)})
        else:
            results = await self.command("POST", f"{REVIEWS}/{action}", list(ids))
        assert [result["id"] for result in results] == list(ids)
        return [result["outcome"] for result in results]

    async def page(self, **search: Any) -> Json:
        """A page of reviews."""
        response = await self.http.post(f"{REVIEWS}/reviewList", json=search)
        assert response.status_code == 200, response.text
        page: Json = response.json()
        return page

    async def listed(self, field: str = "id", **search: Any) -> list[Any]:
        """One field of each review on a page."""
        return [row[field] for row in (await self.page(**search))["results"]]

    async def ratings(self, *entity_ids: str) -> list[Json]:
        """The ratings of products."""
        response = await self.http.post(
            "/api/rating/entityRating", json={"entityIds": list(entity_ids), "entityType": "Product"}
        )
        assert response.status_code == 200, response.text
        found: list[Json] = response.json()
        return found

    async def rating(self, entity_id: str) -> tuple[float, int]:
        """Value and count of a product that is rated at most once: in one store, or without one."""
        found = [(rating["value"], rating["reviewCount"]) for rating in await self.ratings(entity_id)]
        assert len(found) <= 1
        return found[0] if found else (0, 0)

    async def until_rated(self, entity_id: str, value: float, count: int) -> None:
        """Wait for the rating of a product."""
        await eventually(partial(self.rating, entity_id), lambda rating: rating == (value, count))

    async def until_listed(self, entity_id: str, count: int) -> list[Json]:
        """Wait until a product has so many reviews, and no more."""
        search = partial(self.page, entityIds=[entity_id], take=1_000)
        page = await eventually(search, lambda page: page["totalCount"] >= count)
        assert page["totalCount"] == count
        rows: list[Json] = page["results"]
        return rows

    async def open_store(self, id: str | None = None, **settings: Any) -> str:
        """Register a store that takes reviews of everyone, unless the settings say otherwise."""
        id = id or new_id("store")
        everyone = {"reviewsEnabled": True, "anonymousReviewsAllowed": True, "purchaseRequired": False}
        await self.command("PUT", f"/api/stores/{id}", {"settings": {**everyone, **settings}})
        return id


@asynccontextmanager
async def facade_of(service: Service) -> AsyncIterator[Facade]:
    """The facade of a service, by a client of its own."""
    async with service.client() as http:
        yield Facade(http)
