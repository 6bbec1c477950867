"""Missing topics: they are reported, and not created by accident."""

from functools import partial
from pathlib import Path

import pytest

from devservers.kafka import KafkaProcess
from devservers.kafka_setup import set_up_kafka
from messaging.kafka.administration import admin_client
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.lag import ConsumerLag
from messaging.topics import TopicNames
from tests.support.facade import Facade, submission
from tests.support.service import Json, Servers, Service
from tests.support.topics import delete_topic
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


class _AutoCreatingKafka(KafkaProcess):
    """Kafka with its default setting, which creates topics on first use."""

    def _settings(self) -> dict[str, str | int]:
        return {**super()._settings(), "auto.create.topics.enable": "true"}


@pytest.mark.long
async def test_commands_are_not_ready_without_their_topic(own_service: Service, own_facade: Facade) -> None:
    service, missing = own_service, own_service.topic("review-claims")

    async def readiness() -> Json:
        ready: Json = (await own_facade.http.get("/health/ready")).json()
        return ready

    # Servers that answer slowly are reported as unavailable.
    await eventually(readiness, lambda ready: ready["status"] == "pass")
    await delete_topic(service.servers, missing)
    answers = {"mongodb": "pass", "kafka": "pass", "topics": "fail"}
    ready = await eventually(readiness, lambda ready: ready["checks"] == answers)
    assert (ready["status"], ready["reads"], ready["commands"]) == ("warn", "pass", "fail")
    await eventually(
        lambda: any(missing in line for line in service.log("api").splitlines() if "topics are missing" in line)
    )
    assert missing in (await service.run("init")).stdout
    await eventually(readiness, lambda ready: ready["status"] == "pass")


@pytest.mark.long
async def test_missing_topic_is_named_in_log(own_service: Service, own_facade: Facade, product: str) -> None:
    missing = own_service.topic("events")
    await delete_topic(own_service.servers, missing)
    await own_facade.submit(submission(product))
    await eventually(lambda: own_service.log("worker"), lambda log: f"has no topic {missing}" in log)
    await own_service.run("init")
    await own_service.idle()
    await eventually(partial(own_service.records, "events"))


@pytest.mark.long
async def test_measuring_lag_creates_no_topics(servers: Servers, tmp_path: Path) -> None:
    runtime = await set_up_kafka(print)
    async with _AutoCreatingKafka(tmp_path / "kafka", tmp_path / "kafka.log", runtime) as kafka:
        connection, names = KafkaConnection(kafka.address), TopicNames("shop.")
        async with ConsumerLag(connection, names, timeout=60) as lag:
            assert await lag.measure() == {}
        async with admin_client(connection) as admin:
            assert await admin.list_topics() == []
        service = Service(Servers(kafka.address, servers.mongo, is_tansu=False), tmp_path)
        async with service.running(workers=[]):
            assert await service.partitions("review-submissions") == service.count
