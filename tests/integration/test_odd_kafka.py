"""Kafka as administrators and upstream systems leave it: topics made anew, records removed, transactions aborted."""

from __future__ import annotations

from functools import partial

import pytest
from aiokafka import AIOKafkaProducer

from tests.support.facade import new_id, submission
from tests.support.messages import Message, review_message
from tests.support.service import Service
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

TOPIC = "review-submissions"


async def test_what_upstream_systems_abort_has_no_effect(service: Service) -> None:
    product, options = new_id(), {"transactional_id": new_id("upstream"), "bootstrap_servers": service.servers.kafka}
    async with AIOKafkaProducer(**options) as producer:
        for title, is_kept in (("aborted", False), ("kept", True), ("aborted too", False), ("kept too", True)):
            await producer.begin_transaction()
            sent: Message = review_message(submission(product, title=title))
            await producer.send_and_wait(service.topic(TOPIC), sent.value, b"key")
            await (producer.commit_transaction() if is_kept else producer.abort_transaction())
    async with service.mongo() as database:
        titles = partial(database["reviews"].distinct, "title", {"entityId": product})
        assert set(await eventually(titles, lambda found: "kept too" in found)) == {"kept", "kept too"}
    # Neither is what was aborted a backlog.
    await eventually(partial(service.lag, TOPIC), lambda lag: lag == 0)
