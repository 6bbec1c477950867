"""Private parts of aiokafka 0.14: one function each, so that a new version is checked in one place.

tests/unit/test_aiokafka_internals.py fails when one of them is renamed.
docs/library-proposals.md proposes public ones.
"""

import asyncio
from collections.abc import Callable
from copy import copy
from typing import Any

import aiokafka.admin.client as admin_client
import aiokafka.client as client
import aiokafka.consumer.fetcher as fetcher
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.cluster import ClusterMetadata
from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import (
    IllegalGenerationError,
    KafkaConnectionError,
    KafkaError,
    NotCoordinatorForGroupError,
    ProducerClosed,
    for_code,
)
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords

_send = AIOKafkaConnection.send
_update_metadata = client.AIOKafkaClient._metadata_update


def queue_batch(producer: AIOKafkaProducer, batch: BatchBuilder, partition: TopicPartition) -> asyncio.Future[Any]:
    """Put a batch behind those that wait for its partition: `_message_accumulator`, its `_append_batch`, `_closed` and
    `_exception`.

    The public `send_batch` waits until none does, which is never while others send, and counts that wait several times
    over: it gives up within a second or two. Raises what the producer has failed of.
    """
    batch.close()
    accumulator = producer._message_accumulator
    if accumulator._closed:
        raise ProducerClosed
    if accumulator._exception is not None:
        raise copy(accumulator._exception)
    queued: asyncio.Future[Any] = accumulator._append_batch(batch, partition).future
    return asyncio.shield(queued)


async def close_without_flush(producer: AIOKafkaProducer) -> None:
    """Disconnect, and drop the buffer: `_closed` and `_sender`.

    The public `stop` sends the buffer first. An idempotent producer tries that for ever while Kafka is away, and
    would publish later what was reported as failed.
    """
    if producer._closed:
        return
    producer._closed = True
    if producer._sender is not None:
        await producer._sender.close()
    await producer.client.close()


def recover_lost_connections() -> None:
    """Make aiokafka recover from a write to a closed connection under uvloop: replaces `AIOKafkaConnection.send`.

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


def find_brokers_again() -> None:
    """Have clients ask the configured addresses where no broker that they know of answers: replaces
    `AIOKafkaClient._metadata_update`, and uses `_brokers` of a client's `cluster`.

    aiokafka asks those alone that it was told of. Where all brokers of a cluster have other addresses by now, as after
    a restore behind the same name, its consumers ask the old ones for ever.
    """
    client.AIOKafkaClient._metadata_update = _update_or_bootstrap


async def _update_or_bootstrap(asking: client.AIOKafkaClient, cluster: Any, topics: Any) -> bool:
    if await _update_metadata(asking, cluster, topics):
        return True
    # One beside it: to bootstrap forgets the topics, for which a group that loses them is divided anew.
    other = copy(asking)
    other.cluster = ClusterMetadata()
    try:
        await other.bootstrap()
    except KafkaError:
        return False
    if brokers := other.cluster._brokers:
        asking.cluster._brokers = brokers
    return bool(await _update_metadata(asking, cluster, topics))


def make_no_topics() -> None:
    """Have all clients ask for topics without having a broker make those that are missing: replaces `MetadataRequest`
    of `client` and `admin.client`.

    Where `auto.create.topics.enable` is on, as it is by default, brokers make a topic that is asked for, with settings
    of their own: one partition, one copy, and no compaction. Raises AttributeError where another class is in place.
    """
    for module in (client, admin_client):
        if module.MetadataRequest not in (MetadataRequest, _Question):
            raise AttributeError("aiokafka asks for topics by another class than it used to")
        module.MetadataRequest = _Question


class _Question(MetadataRequest):  # type: ignore[misc]
    """A question for topics as they are."""

    def __init__(self, topics: list[str] | None = None) -> None:
        super().__init__(topics, allow_auto_topic_creation=False)


def wait_in_fetches(consumer: AIOKafkaConsumer, milliseconds: int) -> None:
    """Have a broker hold the fetches of a consumer that has started so long, from the next one on: `_fetcher`, its
    `_fetch_max_wait_ms`.

    The option is read once. Raises AttributeError where either has another name.
    """
    fetches = consumer._fetcher
    if not isinstance(fetches._fetch_max_wait_ms, int):
        raise AttributeError("aiokafka keeps the wait in fetches differently than it used to")
    fetches._fetch_max_wait_ms = milliseconds


def assignment_end(consumer: AIOKafkaConsumer) -> asyncio.Future[None]:
    """Done once a subscribed consumer has other partitions than now, or the same ones anew: `_subscription`, its
    `subscription`, of that the `assignment`, and its `unassign_future`.

    A listener hears of a rebalance when it begins, and only the one that was subscribed with.
    """
    end: asyncio.Future[None] = consumer._subscription.subscription.assignment.unassign_future
    return end


def generation(consumer: AIOKafkaConsumer) -> int:
    """The generation of its group that a consumer that has started is in, negative once it has left: `_coordinator`,
    its `generation`."""
    number: int = consumer._coordinator.generation
    return number


def guard_commits(consumer: AIOKafkaConsumer, may_commit: Callable[[], bool]) -> None:
    """Have a consumer that has started commit only while that is true, and nobody told how a commit ends that was given
    up: `_coordinator`, its `_do_commit_offsets`.

    aiokafka commits in the generation of the moment, in none once it has left its group, which Kafka takes where the
    group is empty. What sends a commit runs on when `commit` is cancelled, and its error would be reported as one that
    nobody has looked at.
    """
    coordinator = consumer._coordinator
    commit = coordinator._do_commit_offsets

    async def guarded(*arguments: Any) -> None:
        if not may_commit():
            raise IllegalGenerationError
        await commit(*arguments)

    def looked_at(*arguments: Any) -> asyncio.Task[None]:
        committing = asyncio.ensure_future(guarded(*arguments))
        committing.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return committing

    coordinator._do_commit_offsets = looked_at


def read_group_errors(consumer: AIOKafkaConsumer) -> None:
    """Have a consumer that has started see that its group's offsets aren't told at the moment: `_coordinator`, its
    `_send_req` and `coordinator_dead`.

    A broker that isn't the group's coordinator any more, or still loads the group, says so once for all partitions, and
    names none. aiokafka doesn't look there, and takes them for partitions that were never committed.
    """
    coordinator = consumer._coordinator
    send, forget = coordinator._send_req, coordinator.coordinator_dead

    async def checked(request: Any) -> Any:
        response = await send(request)
        code = getattr(response, "error_code", 0) if isinstance(request, OffsetFetchRequest) else 0
        if code:
            error = for_code(code)
            if error is NotCoordinatorForGroupError:
                forget()
            raise error("offsets of the group aren't told")
        return response

    coordinator._send_req = checked


def join_anew(consumer: AIOKafkaConsumer) -> None:
    """Have a consumer that has started join its group once more: `_coordinator`, its `request_rejoin`.

    Once a heartbeat or a look for offsets was answered by a code that aiokafka doesn't foresee, the task for it is
    over, and its error is raised at each poll; joining begins both tasks anew.
    """
    consumer._coordinator.request_rejoin()


def replace_batch_reader(reader: type) -> None:
    """Have all consumers read the batches of a fetch by this class: replaces `MemoryRecords` of the fetcher.

    aiokafka's own raises for a record that can't be decoded, drops what it has already drained from other partitions,
    and expands a compressed batch whole, whatever that comes to. Raises AttributeError where another is in place.
    """
    if fetcher.MemoryRecords not in (MemoryRecords, reader):
        raise AttributeError("aiokafka reads the batches of a fetch by another class than it used to")
    fetcher.MemoryRecords = reader


def legacy_batch(content: bytes) -> Any:
    """A whole batch in a format before version 2, decoded by aiokafka: `record.memory_records.MemoryRecords`."""
    return MemoryRecords(content).next_batch()


def record_batch(content: bytes) -> Any:
    """A whole batch in version 2 of the format, decoded by aiokafka: `record.default_records.DefaultRecordBatch`."""
    return DefaultRecordBatch(content)
