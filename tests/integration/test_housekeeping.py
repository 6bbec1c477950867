"""The housekeeping of workers: what one task stumbles over keeps no other one from its turn."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.support.facade import new_id
from tests.support.service import Service
from tests.support.waiting import eventually


async def test_a_parked_command_that_cannot_be_read_ends_no_worker(own_service: Service) -> None:
    service = own_service
    long_ago = datetime.now(UTC) - timedelta(hours=2)
    overdue = {"publications": {"_id": new_id("gone"), "at": long_ago, "rule": "rule:low"}}
    async with service.mongo() as database:
        unreadable = {"_id": "feedback/0-0-0/x", "kind": "feedback", "reviewId": "x", "parkedAt": long_ago}
        await database["parkedCommands"].insert_one(unreadable)
        for name, document in overdue.items():
            await database[name].insert_one(document)

        async def left() -> int:
            return sum([await database[name].count_documents({}) for name in overdue])

        await eventually(left, lambda found: found == 0)
        assert await database["parkedCommands"].count_documents({}) == 1
    assert service.processes["worker"].poll() is None
    assert "a task of the housekeeping failed" in service.log("worker")
