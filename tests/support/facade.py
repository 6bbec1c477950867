"""The facade as its clients use it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, unquote
from uuid import uuid4

import httpx

from .retries import retry_until_served
from .service import Json, Service
from .waiting import eventually

T = TypeVar("T")

REVIEWS = "/api/customerReviews"
WAIT = {"Prefer": "wait=30"}
"""The longest wait that the service allows."""

EVERYONE: Json = {"reviewsEnabled": True, "anonymousReviewsAllowed": True, "purchaseRequired": False}
"""Settings of a store that accepts reviews from everyone."""


def new_id(kind: str = "camera") -> str:
    return f"{kind}-{uuid4().hex[:10]}"


def submission(entity_id: str, rating: float = 4, **fields: Any) -> Json:
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


def body_of(response: httpx.Response, kind: type[T], status: int = 200) -> T:
    """The JSON of a response with this status: an object or array as `kind` says."""
    assert response.status_code == status, response.text
    body = response.json()
    assert isinstance(body, kind)
    return body


def problem_of(response: httpx.Response, status: int) -> Json:
    """The body of a response that must be a problem (RFC 9457)."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: Json = response.json()
    more = {"errors", "checks", "id", "commandId", "ids", "outcome", "results", "reads", "commands"}
    assert set(problem) - more == {"type", "title", "status", "detail", "instance"}
    assert problem["status"] == status
    assert unquote(problem["instance"]) == response.request.url.path
    assert "Traceback" not in response.text
    return problem


def errors_of(response: httpx.Response, status: int = 422) -> list[tuple[str, str]]:
    """Pointer and code of each error of a problem."""
    return [(error["pointer"], error["code"]) for error in problem_of(response, status)["errors"]]


def once() -> dict[str, str]:
    """Headers of a command that may be repeated without a second effect and is waited for."""
    return {"Idempotency-Key": new_id("key"), **WAIT}


@dataclass(frozen=True, slots=True)
class Facade:
    """Requests that must succeed, with the relevant parts of their responses."""

    http: httpx.AsyncClient

    async def command(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> list[Json]:
        """Send a command, wait for its outcome, and return its results."""
        send = partial(self.http.request, method, path, json=body, headers={**WAIT, **(headers or {})})
        return await self.results(await retry_until_served(send))

    async def results(self, response: httpx.Response) -> list[Json]:
        """The results of a command by its response, once it has its outcome."""
        if response.status_code == 409:
            return list(problem_of(response, 409)["results"])
        if response.status_code == 202 and "results" not in response.json():
            return await self._eventual_results(body_of(response, dict, 202))  # a busy machine
        return list(body_of(response, dict)["results"])

    async def approve_early(self, id: str, headers: Mapping[str, str] | None = None) -> None:
        """Approve a review that doesn't exist yet; the command is parked when this returns."""
        response = await self.http.post(f"{REVIEWS}/approve", json=[id], headers=headers)
        command = partial(self.get, f"/api/commands/{body_of(response, dict, 202)['commandId']}")
        await eventually(command, lambda state: state.get("results") == [{"id": id, "outcome": "not-found"}])

    async def _eventual_results(self, accepted: Json) -> list[Json]:
        """The results of a command whose wait timed out, in the order of its ids."""
        path = f"/api/commands/{accepted['commandId']}"

        async def results() -> dict[str, Json]:
            return {result["id"]: result for result in (await self.get(path))["results"]}

        # Don't wait for the command's outcome: the moderation of a missing review stays open.
        found = await eventually(results, lambda results: results.keys() >= set(accepted["ids"]))
        await asyncio.sleep(1)  # other facades cache stores and settings for a second
        return [found[id] for id in accepted["ids"]]

    async def submit(self, *reviews: Json) -> list[str]:
        """Submit reviews. They are listed when this returns their ids."""
        results = await self.command("POST", REVIEWS, list(reviews))
        assert {result["outcome"] for result in results} == {"applied"}
        return [result["id"] for result in results]

    async def moderate(self, action: str, *ids: str) -> list[str]:
        """Moderate reviews. The ratings are updated when this returns the outcomes."""
        if action == "delete":
            results = await self.command("DELETE", REVIEWS, {"ids": list(ids)})
        else:
            results = await self.command("POST", f"{REVIEWS}/{action}", list(ids))
        assert [result["id"] for result in results] == list(ids)
        return [result["outcome"] for result in results]

    async def submit_approved(self, *reviews: Json) -> list[str]:
        """Submit and approve reviews. The ratings are updated when this returns their ids."""
        ids = await self.submit(*reviews)
        assert await self.moderate("approve", *ids) == ["applied"] * len(ids)
        return ids

    async def get(self, path: str, **query: str) -> Any:
        """The JSON at a path."""
        return body_of(await retry_until_served(partial(self.http.get, path, params=query)), object)

    async def review(self, id: str) -> Json:
        return body_of(await retry_until_served(partial(self.http.get, f"{REVIEWS}/{id}")), dict)

    async def page(self, **search: Any) -> Json:
        return body_of(await retry_until_served(partial(self.http.post, f"{REVIEWS}/reviewList", json=search)), dict)

    async def listed(self, field: str = "id", **search: Any) -> list[Any]:
        """One field of each review on a page."""
        return [row[field] for row in (await self.page(**search))["results"]]

    async def ratings(self, *entity_ids: str) -> list[Json]:
        wanted = {"entityIds": list(entity_ids), "entityType": "Product"}
        return body_of(await retry_until_served(partial(self.http.post, "/api/rating/entityRating", json=wanted)), list)

    async def rating(self, entity_id: str) -> tuple[float, int]:
        """Value and count of a product with reviews in one store or without a store; zeros without reviews."""
        found = [(rating["value"], rating["reviewCount"]) for rating in await self.ratings(entity_id)]
        assert len(found) <= 1
        return found[0] if found else (0, 0)

    async def histogram(self, entity_id: str) -> dict[str, int] | None:
        """Number of reviews by stars of a product that is rated once; None if unknown."""
        wanted = {"entityIds": [entity_id], "entityType": "Product", "histogram": True}
        (rating,) = body_of(await self.http.post("/api/rating/entityRating", json=wanted), list)
        histogram: dict[str, int] | None = rating["histogram"]
        return histogram

    async def until_rated(self, entity_id: str, value: float, count: int) -> None:
        """Wait until a product has this rating."""
        await eventually(partial(self.rating, entity_id), lambda rating: rating == (value, count))

    async def until_listed(self, entity_id: str, count: int) -> list[Json]:
        """Wait until a product has this many reviews, and assert that it has no more."""
        search = partial(self.page, entityIds=[entity_id], take=1_000)
        page = await eventually(search, lambda page: page["totalCount"] >= count)
        assert page["totalCount"] == count
        rows: list[Json] = page["results"]
        return rows

    async def open_store(self, id: str | None = None, *, name: str | None = None, **settings: Any) -> str:
        """Register a store that accepts reviews from everyone unless the settings differ. Returns its id."""
        id = id or new_id("store")
        fields: Json = {"settings": {**EVERYONE, **settings}, **({"name": name} if name else {})}
        await self.command("PUT", f"/api/stores/{quote(id, safe='')}", fields)
        return id

    async def edit_as_author(self, id: str, text: str) -> None:
        """Have the author of a review send it with another text."""
        before = await self.review(id)
        edit = submission(before["entityId"], before["rating"], id=id, title=before["title"], review=text)
        (result,) = await self.command("POST", REVIEWS, [edit])
        assert result["outcome"] == "applied"


@asynccontextmanager
async def facade_of(service: Service) -> AsyncIterator[Facade]:
    """The facade of a service, with a client of its own."""
    async with service.client() as http:
        yield Facade(http)
