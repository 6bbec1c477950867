"""Metrics and alerts for one stuck partition beside eleven that make progress."""

import re
import time
from functools import partial
from operator import lt
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from tests.support.service import Servers, Service
from tests.support.waiting import eventually

TOPIC = "order-events"
PARTITIONS, STUCK = 12, 5
AGO_S = 900
ALERTS = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yml"

LAG, STANDSTILL = "plaudit_consumer_lag_seconds", "plaudit_consumer_standstill_seconds"

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

Ages = dict[int, float]


async def values_of(service: Service, metric: str) -> Ages:
    """Return the values of a metric of the topic by partition, once there are any: while Kafka is slow, there are
    none."""

    async def found() -> Ages:
        async with service.client() as http:
            families = text_string_to_metric_families((await http.get("/metrics")).text)
            samples = [sample for family in families if family.name == metric for sample in family.samples]
        return {int(s.labels["partition"]): s.value for s in samples if s.labels["topic"] == TOPIC}

    return await eventually(found)


async def age_of_stuck(service: Service) -> float:
    """Return the reported age of the stuck partition, 0 if none is reported."""
    return (await values_of(service, LAG)).get(STUCK, 0)


async def fill_and_consume(service: Service, *, ago_s: float = 0) -> None:
    """Publish a record to each partition, and commit all but the one in the stuck partition."""
    places = [TopicPartition(service.topic(TOPIC), number) for number in range(PARTITIONS)]
    at = int((time.time() - ago_s) * 1_000)
    async with AIOKafkaProducer(bootstrap_servers=service.servers.kafka) as producer:
        for place in places:
            await producer.send_and_wait(place.topic, b"{}", partition=place.partition, timestamp_ms=at)
    async with service.group_member(TOPIC) as member:
        member.assign(places)
        ends = await member.end_offsets([place for place in places if place.partition != STUCK])
        await member.commit(ends)


def threshold(metric: str) -> float:
    """Return the number above which the alert about this metric fires."""
    (number,) = re.findall(rf"{metric}\) > (\d+)", ALERTS.read_text())
    return float(number)


async def test_one_stuck_partition_of_twelve_is_reported(servers: Servers, tmp_path: Path) -> None:
    service = Service(servers, tmp_path, environment={"PLAUDIT_KAFKA__PARTITIONS": str(PARTITIONS)})
    await service.run("init")
    # This record is from before the API runs, and older than the alert allows.
    await fill_and_consume(service, ago_s=AGO_S)
    limit = threshold(LAG)
    async with service.running(workers=()):
        age = await eventually(partial(age_of_stuck, service), lambda found: found > limit)
        ages = await values_of(service, LAG)
        assert ages.keys() == set(range(PARTITIONS))
        assert {partition for partition, each in ages.items() if each > limit} == {STUCK}

        still = (await values_of(service, STANDSTILL))[STUCK]
        await fill_and_consume(service)
        await eventually(partial(age_of_stuck, service), partial(lt, age + 1))
        assert (await values_of(service, STANDSTILL))[STUCK] > still
        others = set(range(PARTITIONS)) - {STUCK}
        await eventually(partial(values_of, service, LAG), lambda found: not any(found[each] for each in others))
        assert await age_of_stuck(service) > limit


async def test_record_age_counts_from_its_arrival(servers: Servers, tmp_path: Path) -> None:
    service = Service(servers, tmp_path, environment={"PLAUDIT_KAFKA__PARTITIONS": str(PARTITIONS)})
    async with service.running(workers=()):
        await eventually(partial(values_of, service, LAG), lambda found: len(found) == PARTITIONS)
        # As written by a mirror: with an old timestamp.
        await fill_and_consume(service, ago_s=AGO_S)
        assert await eventually(partial(age_of_stuck, service)) < AGO_S
