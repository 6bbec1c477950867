"""A connection that Kafka closed is a connection lost, on every event loop."""

from __future__ import annotations

from typing import Any

from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError

_send = AIOKafkaConnection.send


def know_lost_connections() -> None:
    """Make aiokafka recover from a write to a closed connection under uvloop.

    There it is a RuntimeError, where aiokafka expects an OSError (its issue 1038), and it ends the task that fetches:
    the consumer stays in its group, keeps its partitions, and never reads from them again.
    """
    AIOKafkaConnection.send = _send_or_lose


def _send_or_lose(connection: AIOKafkaConnection, request: Any, expect_response: bool = True) -> Any:
    try:
        return _send(connection, request, expect_response)
    except KafkaConnectionError:
        raise  # which is a RuntimeError itself
    except RuntimeError as error:
        connection.close(reason=CloseReason.CONNECTION_BROKEN)
        raise KafkaConnectionError(f"Connection at {connection.host}:{connection.port} broken: {error}") from error
