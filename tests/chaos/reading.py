"""Reading what the API shows, in parts."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from tests.chaos.clients import Http
from tests.chaos.model import Json

PAGE = 1_000
"""Rows per request of a search."""


async def pages(http: Http, path: str, **search: Any) -> AsyncIterator[Json]:
    """All results of a search, read page by page."""
    skip, total = 0, 1
    while skip < total:
        answer = await http.send("POST", path, {**search, "skip": skip, "take": PAGE})
        total = answer.body["totalCount"]
        for row in answer.body["results"]:
            yield row
        skip += PAGE


def parts(items: Sequence[str], size: int) -> Iterable[Sequence[str]]:
    """The items, at most `size` at a time."""
    return (items[start : start + size] for start in range(0, len(items), size))
