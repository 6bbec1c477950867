"""Bad records among good ones, on real servers: the short form of `tests.chaos.bad_records`."""

import os
import random
from pathlib import Path

import pytest

from tests.chaos.bad_records import run
from tests.chaos.record_kinds import kinds
from tests.support.service import Servers, running_service

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.parametrize("disturbed", [False, True], ids=["one-worker", "workers-come-and-go"])
async def test_all_kinds_on_all_topics(servers: Servers, tmp_path: Path, disturbed: bool) -> None:
    seed = int(os.environ.get("SEED", random.randrange(10**6)))
    async with running_service(servers, tmp_path) as service:
        found = await run(service, kinds(), seed, disturbed=disturbed)
    assert found["faults"] == [], (seed, found)
    assert found["kinds"] - len(found["refusedByKafka"]) >= 50, found["refusedByKafka"]
