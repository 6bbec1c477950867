"""The checks of MongoDB that `plaudit doctor` makes, where servers would have to be large or slow."""

import asyncio
from typing import Any, cast

import pytest

from domain.findings import Level
from storage import checks
from storage.database import Database
from storage.mending import SHAPES, Mender


async def test_slow_scans_of_many_collections_share_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = list[int]()

    async def slow_count(self: Mender, *, most: int, patience_ms: int) -> int | None:
        taken.append(patience_ms)
        await asyncio.sleep(patience_ms / 1_000)  # as MongoDB does, which ends the scan then
        return None

    monkeypatch.setattr(Mender, "count", slow_count)
    monkeypatch.setattr(checks, "_PATIENCE_MS", 60)
    monkeypatch.setattr(checks, "_PATIENCE_IN_ALL_MS", 180)
    database: Any = dict.fromkeys(SHAPES)
    finding = await checks.check_documents(cast(Database, database))
    assert (finding.level, len(taken)) == (Level.OK, len(SHAPES))
    assert "too many to check quickly" in finding.text
    assert sum(taken) <= 180 + len(SHAPES), "one millisecond is the least"
