"""Checks that a repeat of all messages changes no field of any review or return."""

import json
from collections.abc import Mapping

from tests.chaos.actors import RETURNS
from tests.chaos.clients import Http
from tests.chaos.difference import Difference
from tests.chaos.reading import pages
from tests.chaos.rules import SEARCH

Rows = Mapping[str, str]
"""Reviews and returns as the API shows them, as JSON by id."""


async def rows(http: Http) -> Rows:
    """All reviews and returns, as the API shows them."""
    reviews = {row["id"]: row async for row in pages(http, SEARCH, sort="createdDate:asc")}
    returns = {row["id"]: row async for row in pages(http, f"{RETURNS}/search")}
    return {id: json.dumps(row) for id, row in (reviews | returns).items()}


async def changed_since(http: Http, before: Rows) -> list[Difference]:
    """Reviews and returns that aren't exactly as they were before."""
    now = await rows(http)
    return [
        Difference("wrong", id, f"a repeat has changed {changed_fields(before.get(id), now.get(id))}")
        for id in sorted(before.keys() | now.keys())
        if before.get(id) != now.get(id)
    ]


def changed_fields(before: str | None, now: str | None) -> str:
    """The fields of a row that differ, before and now."""
    earlier, later = json.loads(before or "{}"), json.loads(now or "{}")
    names = [name for name in earlier.keys() | later.keys() if earlier.get(name) != later.get(name)]
    return ", ".join(f"{name}: {earlier.get(name)} to {later.get(name)}" for name in sorted(names))
