"""The facade as its clients use it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx

from .service import Json, Service

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

    async def open_store(self, id: str | None = None, **settings: Any) -> str:
        """Register a store that takes reviews of everyone, unless the settings say otherwise."""
        id = id or new_id("store")
        everyone = {"reviewsEnabled": True, "anonymousReviewsAllowed": True, "purchaseRequired": False}
        await self.command("PUT", f"/api/stores/{id}", {"settings": {**everyone, **settings}})
        return id


@dataclass(frozen=True, slots=True)
class Connection:
    """One connection to the facade, for many requests: it costs a tenth of what a whole HTTP client does."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        """Send a request; returns status and body."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n\r\n"
        self.writer.write(head.encode() + content)
        lines = (await self.reader.readuntil(b"\r\n\r\n")).lower().splitlines()
        length = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
        answer = json.loads(await self.reader.readexactly(length))
        status = int(lines[0].split()[1])
        assert status != 503 or any(line.startswith(b"retry-after:") for line in lines)
        return status, answer


@asynccontextmanager
async def connection(service: Service) -> AsyncIterator[Connection]:
    """A connection to the facade of a service."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()
