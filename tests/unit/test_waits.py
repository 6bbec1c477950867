"""Waits for outcomes: shared look-ups, limits of concurrent waits, and failures."""

import asyncio
from collections.abc import Collection

import pytest
from pymongo.errors import AutoReconnect

from api.waits import LOOKS_PER_SECOND, Key, Waits
from api.web.limits import Slots
from domain.commands import Outcome
from storage.outcomes import ItemOutcome
from tests.support.waiting import eventually

PATIENCE_S = 300.0
"""Seconds for results that come at once, or as soon as a busy machine allows."""


class Outcomes:
    """A source of outcomes that records the queries."""

    def __init__(self) -> None:
        self.known: dict[Key, ItemOutcome] = {}
        self.queries: list[set[Key]] = []
        self.failures: list[Exception] = []

    async def __call__(self, keys: Collection[Key]) -> dict[Key, ItemOutcome]:
        self.queries.append(set(keys))
        if self.failures:
            raise self.failures.pop(0)
        return {key: self.known[key] for key in keys if key in self.known}

    def add(self, command_id: str, item_id: str) -> None:
        answer = ItemOutcome(command_id, item_id, Outcome.APPLIED)
        self.known[answer.key] = answer


async def test_one_query_serves_all_waiting_requests() -> None:
    outcomes = Outcomes()
    waits = Waits(outcomes, most=100, most_per_client=100)
    loop = asyncio.get_running_loop()
    began = loop.time()
    waiting = [asyncio.create_task(waits.answers(f"c{number}", ["a", "b"], PATIENCE_S)) for number in range(50)]
    await eventually(lambda: len(outcomes.queries) >= 25)
    assert len(outcomes.queries) <= 25 + (loop.time() - began) * LOOKS_PER_SECOND
    assert outcomes.queries[-1] == {(f"c{number}", id) for number in range(50) for id in "ab"}
    for number in range(50):
        outcomes.add(f"c{number}", "a")
        outcomes.add(f"c{number}", "b")
    assert [set(answers) for answers in await asyncio.gather(*waiting)] == [{"a", "b"}] * 50
    before = len(outcomes.queries)
    assert await waits.answers("c0", ["a"], PATIENCE_S) == {"a": outcomes.known["c0", "a"]}
    assert len(outcomes.queries) == before + 1


async def test_waits_end_at_shutdown() -> None:
    outcomes = Outcomes()
    waits = Waits(outcomes, most=100, most_per_client=100)
    outcomes.add("c", "a")
    waiting = asyncio.create_task(waits.answers("c", ["a", "b"], PATIENCE_S))
    await eventually(lambda: outcomes.queries)
    waits.end()
    assert set(await waiting) == {"a"}
    assert waits.is_over
    assert await waits.answers("d", ["a"], PATIENCE_S) == {}


async def test_queries_are_bounded() -> None:
    outcomes = Outcomes()
    waits = Waits(outcomes, most=100, most_per_client=100)
    ids = [str(number) for number in range(1_000)]
    waiting = [asyncio.create_task(waits.answers(f"c{number}", ids, PATIENCE_S)) for number in range(20)]
    for number in range(20):
        for id in ids:
            outcomes.add(f"c{number}", id)
    assert [len(answers) for answers in await asyncio.gather(*waiting)] == [1_000] * 20
    assert max(map(len, outcomes.queries)) == 1_000


async def test_wait_ends_after_its_limit() -> None:
    outcomes = Outcomes()
    outcomes.add("c", "a")
    waits = Waits(outcomes, most=100, most_per_client=100)
    assert set(await waits.answers("c", ["a", "b"], 0.05)) == {"a"}


async def test_database_outage_is_waited_for_and_other_failures_are_raised() -> None:
    outcomes = Outcomes()
    outcomes.failures = [AutoReconnect("away"), AutoReconnect("away")]
    outcomes.add("c", "a")
    waits = Waits(outcomes, most=100, most_per_client=100)
    assert set(await waits.answers("c", ["a"], PATIENCE_S)) == {"a"}
    outcomes.failures = [ValueError("broken")]
    with pytest.raises(ValueError, match="broken"):
        await waits.answers("c", ["a"], PATIENCE_S)
    assert set(await waits.answers("c", ["a"], PATIENCE_S)) == {"a"}


def test_slots_are_bounded_per_client_and_in_total() -> None:
    slots = Slots(most=3, most_per_client=2)
    with slots.take("anna") as first, slots.take("anna") as second, slots.take("anna") as third:
        assert (first, second, third) == (True, True, False)
        with slots.take("berta") as other, slots.take("carl") as last:
            assert (other, last) == (True, False)
    with slots.take("anna") as again:
        assert again
