"""A Plaudit client in one file, with httpx: `python example.py http://127.0.0.1:8080 Electronics camera-1`."""

import sys
import time
from collections.abc import Iterator
from typing import Any, NotRequired, TypedDict, cast
from urllib.parse import quote
from uuid import uuid4

import httpx

Json = dict[str, Any]
_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0


class Answer(TypedDict):
    """The response to a command: `accepted`, or with a result for each id."""

    commandId: str
    ids: list[str]
    outcome: str
    results: NotRequired[list[Json]]


class Summary(TypedDict):
    """The rating of an object in a store."""

    value: float
    average: float
    reviewCount: int
    histogram: dict[str, int] | None


class PlauditError(Exception):
    """A problem response of the service (RFC 9457). Each of `errors` has a `pointer`, a `code` and a `message`."""

    def __init__(self, response: httpx.Response) -> None:
        is_problem = response.headers.get("content-type", "").startswith("application/problem+json")
        self.problem: Json = response.json() if is_problem else {"detail": response.text[:1_000]}
        self.status = response.status_code
        self.errors: list[Json] = self.problem.get("errors", [])
        super().__init__(f"{self.status}: {self.problem.get('detail', self.problem.get('title', ''))}")


class Plaudit:
    """A client of one service. `http` has its base URL and, if the service requires a key, the header `X-API-Key`."""

    def __init__(self, http: httpx.Client, attempts: int = 5) -> None:
        self._http = http
        self._attempts = attempts
        self._summaries: dict[str, tuple[str, Summary]] = {}

    def command(self, method: str, path: str, body: object, *, wait: int = 30, key: str | None = None) -> Answer:
        """Send a command and wait up to `wait` seconds for its outcome. Raises PlauditError or httpx.TransportError.

        It takes effect once, because every retry has the same idempotency key. With a key of your own, such as the id
        of an order, this also holds if your process restarts in between.
        """
        headers = {"Idempotency-Key": key or str(uuid4()), "Prefer": f"wait={wait}"}
        return cast(Answer, self._send(method, path, json=body, headers=headers).json())

    def submit(self, *reviews: Json, key: str | None = None) -> Answer:
        """Submit reviews."""
        return self.command("POST", "/api/customerReviews", reviews, key=key)

    def reviews(self, **search: object) -> Iterator[Json]:
        """All matching reviews, page by page: none is repeated or missed while others are written."""
        wanted = {"take": 100, "withTotal": False, **search}
        while True:
            page: Json = self._send("POST", "/api/customerReviews/reviewList", json=wanted).json()
            yield from page["results"]
            if "next" not in page:
                return
            wanted["after"] = page["next"]
            wanted.pop("skip", None)

    def ratings(self, *ids: str, entity_type: str = "Product") -> list[Json]:
        """The ratings of objects, one for each store."""
        body = {"entityIds": ids, "entityType": entity_type}
        return list(self._send("POST", "/api/rating/entityRating", json=body).json())

    def summary(self, store: str, id: str, entity_type: str = "Product") -> Summary:
        """The rating of an object for display; the service sends it again only if it has changed (ETag)."""
        path = "/storefront/v1/{}/{}/{}/summary".format(*(quote(each, safe="") for each in (store, entity_type, id)))
        known = self._summaries.get(path)
        answer = self._send("GET", path, headers={"If-None-Match": known[0]} if known else {})
        if known is None or answer.status_code != httpx.codes.NOT_MODIFIED:
            known = self._summaries[path] = (answer.headers["etag"], answer.json())
        return known[1]

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Send a request, and retry it while the service is unavailable or overloaded. Raises as `command`."""
        for left in reversed(range(self._attempts)):
            try:
                answer = self._http.request(method, path, **request)
                pause = _pause_after(answer)
                if not left or answer.status_code not in (429, 502, 503, 504) or pause > _LONGEST_PAUSE_S:
                    break
                time.sleep(pause)
            except httpx.TransportError:
                if not left:
                    raise
                time.sleep(_PAUSE_S)
        if not answer.is_success and answer.status_code != httpx.codes.NOT_MODIFIED:
            raise PlauditError(answer)
        return answer


def _pause_after(answer: httpx.Response) -> float:
    retry_after = answer.headers.get("retry-after", "")
    return float(retry_after) if retry_after.isdecimal() else _PAUSE_S


if __name__ == "__main__":
    address, store, product = sys.argv[1:]
    review = {"storeId": store, "userId": "u-1", "userName": "Ann", "EntityId": product, "EntityType": "Product"}
    with httpx.Client(base_url=address, timeout=40) as http:
        plaudit = Plaudit(http)
        submitted = plaudit.submit({**review, "review": "Sharp pictures, and the battery lasts.", "rating": 4})
        plaudit.command("POST", "/api/customerReviews/approve", submitted["ids"])
        print([(row["reviewStatus"], row["review"]) for row in plaudit.reviews(entityIds=[product])])
        print(plaudit.ratings(product)[0]["value"], plaudit.summary(store, product)["reviewCount"])
