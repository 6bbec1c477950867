"""The periodic work of a worker, while a part of its world is away."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.facade import new_id
from tests.support.service import Servers, Service
from tests.support.waiting import eventually, free_port

pytestmark = pytest.mark.kafka


async def test_what_is_owed_waits_for_no_store_of_images(servers: Servers, tmp_path: Path) -> None:
    away = {
        "PLAUDIT_IMAGES__STORE": "s3://reviews/plaudit",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "eu-central-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}",
    }
    service, key = Service(servers, tmp_path, environment=away), new_id()
    async with service.running(api=False), service.mongo() as database:
        await eventually(lambda: service.log("worker"), lambda log: "what=images where=housekeeping" in log)
        # As a worker that died has left it.
        message = [service.topic("events"), key.encode(), b"{}", []]
        await database["outbox"].insert_one({"at": datetime.now(UTC) - timedelta(minutes=1), "messages": [message]})
        await eventually(lambda: database["outbox"].count_documents({}), lambda count: count == 0)
        assert len(await service.keyed("events", key)) == 1
