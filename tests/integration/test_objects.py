"""Consumption of facts about objects."""

from time import time

from structlog.testing import capture_logs

from consumers.objects import ObjectConsumer
from messaging.decoding import Received
from messaging.objects import OBJECT_UPDATE
from tests.support.consumers import Desk
from tests.support.service import Json

DAY_MS = 86_400_000


async def test_facts_from_the_future_are_logged_and_stay_the_newest(desk: Desk) -> None:
    now = round(time() * 1_000)

    async def consume_names(*names: str, at: int) -> list[Json]:
        """Consume names, written at a time in milliseconds; returns the log entries."""
        values = [{"entityType": "Product", "entityId": "camera", "name": name} for name in names]
        batch = [
            Received(each, OBJECT_UPDATE.validate_json(each.value or b"")) for each in desk.records(*values, at=at)
        ]
        with capture_logs() as lines:
            await ObjectConsumer(desk.services)(batch)
        return [dict(line) for line in lines]

    assert await consume_names("Camera", at=now) == await consume_names(at=now) == []
    (line,) = await consume_names("Ahead", "Further ahead", at=now + DAY_MS)
    assert (line["records"], line["partition"], line["offset"]) == (2, 0, desk.offset)
    assert line["seconds_ahead"] > 3_600
    assert await consume_names("Behind", at=now) == []
    found = await desk.database["objects"].find_one({"_id.entityId": "camera"}) or {}
    assert found["facts"]["name"] == "Further ahead"
