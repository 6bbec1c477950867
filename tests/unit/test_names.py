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
from storage.ratings_objects import RatedObjectRepository
from storage.reviews import ReviewRepository, WantedNames
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
