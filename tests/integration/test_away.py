"""Parked commands and unread records while no worker runs, and records deleted by retention meanwhile."""

from datetime import timedelta

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete

from messaging.kafka.administration import admin_client
from messaging.kafka.connection import KafkaConnection
from tests.support.facade import Facade, submission
from tests.support.messages import message, moderation
from tests.support.service import Service
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


async def test_time_without_workers_does_not_count_as_parking_time(
    own_service: Service, own_facade: Facade, product: str
) -> None:
    service = own_service
    async with service.mongo() as database:
        parked, clock = database["parkedCommands"], database["parkingClock"]
        await service.publish("moderation-commands", moderation("approve", product))
        await eventually(lambda: parked.count_documents({}), lambda count: count == 1)
        await eventually(lambda: clock.count_documents({}), lambda count: count == 1)
        await service.stop("worker")
        # Simulates a day without workers.
        day = timedelta(days=1) // timedelta(milliseconds=1)
        for collection, name in ((parked, "parkedAt"), (clock, "at")):
            await collection.update_many({}, [{"$set": {name: {"$subtract": [f"${name}", day]}}}])
        service.start("worker")
        await service.until_ready()
        await eventually(lambda: service.log("worker"), lambda log: "no worker was running" in log)
    review = submission(product, id=product)
    await service.publish("review-submissions", message(review, product))
    await eventually(lambda: own_facade.rating(product), lambda rating: rating[1] == 1)
    assert await service.records("moderation-commands.dlq") == []


async def test_doctor_counts_records_deleted_unread(own_service: Service) -> None:
    service = own_service
    place = TopicPartition(service.topic("store-updates"), 0)
    await service.stop("worker")
    await service.rewind()
    keys = [f"store-{number}" for number in range(40)]
    await service.publish("store-updates", *(message({"id": key, "name": "Shop"}, key) for key in keys))
    async with admin_client(KafkaConnection(service.servers.kafka)) as admin:
        await admin.delete_records({place: RecordsToDelete(before_offset=3)})
    output = " ".join((await service.run("doctor", code=1)).stdout.split())
    assert "deleted records before they were read: 3 of store-updates" in output, output
