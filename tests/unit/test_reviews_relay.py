"""The relay of reviews keeps up with changes while all reviews are published again."""

from collections.abc import Collection
from contextlib import aclosing
from typing import Any

import pytest
from bson import Timestamp
from pymongo import AsyncMongoClient

from consumers.reviews import relay as reviews_relay
from consumers.reviews.relay import _Flow
from storage.reviews import changes as reviews_changes
from storage.reviews.changes import BATCH, Page, Progress, ReviewChanges, States

NOTHING = States([], [], [])


class Stream:
    """A change stream with these changes, none of which come later."""

    resume_token = None

    def __init__(self, ids: Collection[object]) -> None:
        at = Timestamp(1_767_225_600, 1)
        self._changes = [
            {"operationType": "update", "documentKey": {"_id": id}, "clusterTime": at} for id in reversed([*ids])
        ]

    async def try_next(self) -> dict[str, Any] | None:
        return self._changes.pop() if self._changes else None


class Changes(ReviewChanges):
    """Changes, and reviews without content; notes what is read."""

    def __init__(self, ids: Collection[object]) -> None:
        client = AsyncMongoClient[dict[str, Any]]("mongodb://127.0.0.1:1")
        super().__init__(client["plaudit"], None, Stream(ids))  # type: ignore[arg-type]
        self.read: list[str | int] = []

    async def states(self, ids: Collection[str], *, are_published: bool = False) -> States:
        self.read.append(len(ids))
        return NOTHING

    async def page(self, after: str) -> Page:
        self.read.append("page")
        return Page(NOTHING, after + "a")

    async def leave_queue(self, states: States) -> None:
        pass  # there are none


class Nowhere:
    """A publisher, and the notes of the progress."""

    async def publish(self, messages: Collection[object]) -> None:
        assert not messages

    async def note(self, progress: Progress, at: object) -> None:
        assert progress.republication


@pytest.fixture(autouse=True)
def _stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (reviews_changes, reviews_relay):
        monkeypatch.setattr(module, "monotonic", lambda: 0.0)


@pytest.mark.parametrize("count", [0, 1, BATCH - 1, BATCH, 3 * BATCH + 200])
async def test_changes_are_caught_up_with_between_two_pages(count: int) -> None:
    changes, nowhere = Changes([f"r-{n}" for n in range(count)]), Nowhere()
    flow = _Flow(None, "reviews", nowhere, changes, nowhere, Progress())  # type: ignore[arg-type]
    async with aclosing(flow.republish("request")) as steps:
        async for _ in steps:
            if changes.read.count("page") == 2:
                break
    batches = [BATCH] * (count // BATCH)
    assert changes.read == ["page", *batches, count % BATCH, "page"]


async def test_repeated_changes_of_few_reviews_are_caught_up_with() -> None:
    changes = Changes([f"r-{n % 7}" for n in range(3 * BATCH)])
    first, second = await changes.next(), await changes.next()
    assert (len(first.ids), first.is_full, second.is_full) == (7, True, False)
