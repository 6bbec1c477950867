"""Connections to Kafka that are gone, as aiokafka reports them."""

from __future__ import annotations

import asyncio

import pytest
import uvloop
from aiokafka.conn import create_conn
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest

from messaging.kafka.aiokafka_internals import recover_lost_connections
from tests.support.service import Servers


async def test_write_to_a_closed_connection_is_a_lost_connection(servers: Servers) -> None:
    host, _, port = servers.kafka.partition(":")

    async def send_too_late() -> None:
        recover_lost_connections()
        connection = await create_conn(host, int(port))
        assert await connection.send(MetadataRequest([]))
        # As when the broker resets it: closed by the loop, which tells that only in its next round.
        connection._writer.transport.abort()
        await asyncio.sleep(0)
        with pytest.raises(KafkaConnectionError):
            await connection.send(MetadataRequest([]))
        assert not connection.connected()

    await asyncio.to_thread(uvloop.run, send_too_late())
