"""In production nothing starts on servers that can lose acknowledged data."""

import pytest

from storage.durability import reasons_in
from tests.support.service import Service
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.mark.long
async def test_processes_refuse_to_start_on_a_single_server(stopped_service: Service) -> None:
    stopped_service.environment["PLAUDIT_PRODUCTION"] = "true"
    for process in ("api", "worker", "scheduler"):
        stopped_service.start(process)
    for process in ("api", "worker", "scheduler"):
        assert await eventually(stopped_service.processes[process].poll, lambda code: code is not None) == 1
        log = " ".join(stopped_service.log(process).split())
        assert f"fewer than 2 replicas of {stopped_service.prefix}" in log
        assert "the replica set has only 1 data-bearing server" in log
        assert "Traceback" not in log

    async def findings() -> str:
        return " ".join((await stopped_service.run("doctor", code=1)).stdout.split())

    # For a slow server it waits some seconds, and then reports it.
    await eventually(findings, lambda found: "fail kafka loss" in found and "fail mongodb loss" in found)
    del stopped_service.environment["PLAUDIT_PRODUCTION"]
    assert "fail kafka loss" not in " ".join((await stopped_service.run("doctor", code=None)).stdout.split())


@pytest.mark.parametrize(
    ("hello", "reasons"),
    [
        ({"hosts": ["a:1", "b:1", "c:1"]}, []),
        ({"hosts": ["a:1"], "passives": ["b:1"], "arbiters": ["c:1"]}, []),
        ({"hosts": ["a:1"], "arbiters": ["b:1", "c:1"]}, ["the replica set has only 1 data-bearing server"]),
        ({}, ["the replica set has only 0 data-bearing servers"]),
        ({"msg": "isdbgrid"}, []),
    ],
)
def test_data_bearing_servers_are_counted(hello: dict[str, object], reasons: list[str]) -> None:
    assert reasons_in(hello) == reasons
