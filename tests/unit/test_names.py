"""Filling in names: pauses before each is requested again."""

from collections import Counter
from collections.abc import Collection, Mapping
from unittest.mock import AsyncMock

import pytest
import structlog
from structlog.testing import capture_logs

from consumers import names
from consumers.names import TypeNames
from consumers.names_known import KnownNames
from domain.entity_types import EntityTypes, PartlyResolvedError, ResolvedEntity
from storage.ratings.objects import RatedObjectRepository
from storage.reviews.repository import ReviewRepository, WantedNames
from tests.support.clock import Clock


async def test_partly_failed_names_are_requested_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: Counter[str] = Counter()

    async def resolve(ids: Collection[str]) -> Mapping[str, ResolvedEntity]:
        requested.update(ids)
        raise PartlyResolvedError("the answer has status 503", {"a": ResolvedEntity("A")}, ["failing"])

    clock, reviews = Clock(), AsyncMock(spec=ReviewRepository)
    reviews.wanted_names.return_value = WantedNames(["a", "failing", "unknown"], is_more=False)
    monkeypatch.setattr(names, "monotonic", clock)
    monkeypatch.setattr(names, "log", structlog.get_logger())
    filling = TypeNames(
        "Vendor", resolve, reviews, AsyncMock(spec=RatedObjectRepository), KnownNames(EntityTypes(), clock)
    )
    with capture_logs() as lines:
        for _ in range(20):
            await filling.fill_some()
            clock.now += names.LONGEST_PAUSE_AWAY_S
    assert requested["failing"] == requested["a"] == 20
    assert requested["unknown"] < 10
    reviews.fill_names.assert_awaited_with("Vendor", {"a": "A"})
    # A warning is logged once; repeats are logged at debug level.
    warnings = [(line["error"], line["ids"]) for line in lines if line["log_level"] == "warning"]
    assert warnings == [("the answer has status 503", 1)]


@pytest.mark.long
async def test_more_unknown_ids_than_pauses_are_requested_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: Counter[str] = Counter()

    async def resolve(ids: Collection[str]) -> Mapping[str, ResolvedEntity]:
        requested.update(ids)
        return {"0-new": ResolvedEntity("New")} if "0-new" in ids else {}

    pages = [[f"{page}-{n}" for n in range(5)] for page in range(4)]

    async def wanted(_: str, *, after: str, limit: int) -> WantedNames:
        page = int(after[0]) + 1 if after else 0
        return WantedNames(pages[page], is_more=page < len(pages) - 1)

    clock, reviews = Clock(), AsyncMock(spec=ReviewRepository)
    reviews.wanted_names.side_effect = wanted
    monkeypatch.setattr(names, "monotonic", clock)
    monkeypatch.setattr(names, "_MOST_PAUSES", 10)
    filling = TypeNames(
        "Vendor", resolve, reviews, AsyncMock(spec=RatedObjectRepository), KnownNames(EntityTypes(), clock)
    )

    async def fill_for(seconds: float) -> None:
        ends = clock.now + seconds
        while clock.now < ends:
            clock.now += max(0.1, await filling.fill_some())

    await fill_for(3_600)
    # Once in ten minutes, and during the first ten as often as growing pauses allow.
    assert set(requested) == {id for page in pages for id in page}
    assert max(requested.values()) <= 3_600 / names.LONGEST_PAUSE_UNKNOWN_S + 10
    pages[0].append("0-new")
    await fill_for(names.LONGEST_PAUSE_UNKNOWN_S + 60)
    assert requested["0-new"] > 0
