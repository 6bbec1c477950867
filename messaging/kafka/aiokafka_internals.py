"""Private parts of aiokafka 0.14, one function each, so that there is one place to check for a new version.

tests/unit/test_aiokafka_internals.py fails if one of them is renamed. docs/library-proposals.md proposes public ones.
"""

import asyncio
from collections.abc import Callable, Iterable
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
    """Append a batch to those that wait for its partition: `_message_accumulator`, its `_append_batch`, `_closed` and
    `_exception`.

    The public `send_batch` waits until none does, which is never while others send, and subtracts its total wait from
    its timeout in each round: it gives up within a second or two. Raises the error of a failed producer.
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
    """Disconnect and drop the buffer: `_closed` and `_sender`.

    The public `stop` sends the buffer first. While Kafka is unavailable an idempotent producer retries that for ever,
    and would later publish messages that were reported as failed.
    """
    if producer._closed:
        return
    producer._closed = True
    if producer._sender is not None:
        await producer._sender.close()
    await producer.client.close()


def recover_lost_connections() -> None:
    """Make aiokafka recover from a write to a closed connection under uvloop: replaces `AIOKafkaConnection.send`.

    uvloop raises a RuntimeError where aiokafka expects an OSError (its issue 1038), which ends the fetch task: the
    consumer stays in its group, keeps its partitions, and never reads from them again.
    """
    AIOKafkaConnection.send = _send_or_disconnect


def _send_or_disconnect(connection: AIOKafkaConnection, request: Any, expect_response: bool = True) -> Any:
    try:
        return _send(connection, request, expect_response)
    except KafkaConnectionError:
        raise  # a RuntimeError itself
    except RuntimeError as error:
        connection.close(reason=CloseReason.CONNECTION_BROKEN)
        raise KafkaConnectionError(f"Connection at {connection.host}:{connection.port} broken: {error}") from error


def find_brokers_again() -> None:
    """Have clients use the configured addresses again if no broker that they know answers: replaces
    `AIOKafkaClient._metadata_update`, and uses `_brokers` of a client's `cluster`.

    aiokafka asks only brokers that it has discovered. If all brokers of a cluster have new addresses, as after a
    restore behind the same name, its consumers ask the old ones for ever.
    """
    client.AIOKafkaClient._metadata_update = _update_or_bootstrap


async def _update_or_bootstrap(known: client.AIOKafkaClient, cluster: Any, topics: Any) -> bool:
    if await _update_metadata(known, cluster, topics):
        return True
    # On a copy: `bootstrap` drops the client's topics, and a group whose member loses them rebalances.
    bootstrapped = copy(known)
    bootstrapped.cluster = ClusterMetadata()
    try:
        await bootstrapped.bootstrap()
    except KafkaError:
        return False
    if brokers := bootstrapped.cluster._brokers:
        known.cluster._brokers = brokers
    return bool(await _update_metadata(known, cluster, topics))


def look_up_topics(consumer: AIOKafkaConsumer, topics: Iterable[str]) -> None:
    """Have a consumer look up these topics at once: `set_topics` of its `_client`. It forgets all others, so it reads
    nothing more until it is assigned partitions again.

    The public `end_offsets` looks up one unknown topic after another, with a pause of 100 ms after each. With `assign`,
    which would do the same, a fetch task begins, which may ignore that it is cancelled: `stop` then waits for ever.
    """
    consumer._client.set_topics(set(topics))


def make_no_topics() -> None:
    """Have all clients ask for topics without creating missing ones: replaces `MetadataRequest` of `client` and
    `admin.client`.

    With `auto.create.topics.enable`, which is on by default, brokers create a topic that is asked for, with their own
    settings: one partition, one replica, and no compaction. Raises AttributeError if another class is in place.
    """
    for module in (client, admin_client):
        if module.MetadataRequest not in (MetadataRequest, _NonCreatingRequest):
            raise AttributeError("this version of aiokafka requests topics with another class than expected")
        module.MetadataRequest = _NonCreatingRequest


class _NonCreatingRequest(MetadataRequest):  # type: ignore[misc]
    """A metadata request that creates no topics."""

    def __init__(self, topics: list[str] | None = None) -> None:
        super().__init__(topics, allow_auto_topic_creation=False)


def wait_in_fetches(consumer: AIOKafkaConsumer, milliseconds: int) -> None:
    """Set the milliseconds that brokers may hold the fetches of a started consumer, from its next one on: `_fetcher`,
    its `_fetch_max_wait_ms`.

    aiokafka reads the option only at the start. Raises AttributeError if either has another name.
    """
    fetches = consumer._fetcher
    if not isinstance(fetches._fetch_max_wait_ms, int):
        raise AttributeError("this version of aiokafka stores the wait of fetches differently than expected")
    fetches._fetch_max_wait_ms = milliseconds


def serve_last(consumer: AIOKafkaConsumer, partitions: Iterable[TopicPartition]) -> None:
    """Have the next polls of a started consumer return records of other partitions first: `_fetcher`, its `_records`.

    aiokafka returns all fetched records of a partition, often thousands, before any of the next one.
    """
    fetched = consumer._fetcher._records
    for partition in partitions:
        if partition in fetched:
            fetched.move_to_end(partition)


def drained_positions(consumer: AIOKafkaConsumer) -> dict[TopicPartition, int]:
    """The known positions of a started consumer in partitions of which nothing is buffered: `_subscription`, its
    `subscription`, the `assignment` of that, and its `all_consumed_offsets`; `_fetcher`, its `_records`.

    The public `position` waits for an unknown one. With a buffered error a position may be past the record that is its
    cause, before any poll has raised it.
    """
    positions = consumer._subscription.subscription.assignment.all_consumed_offsets()
    buffered = consumer._fetcher._records
    return {partition: each.offset for partition, each in positions.items() if partition not in buffered}


def assignment_end(consumer: AIOKafkaConsumer) -> asyncio.Future[None]:
    """Done once a subscribed consumer has a new assignment, even if it has the same partitions: `_subscription`, its
    `subscription`, the `assignment` of that, and its `unassign_future`.

    A listener is only called when a rebalance begins, and only the one passed to `subscribe`.
    """
    end: asyncio.Future[None] = consumer._subscription.subscription.assignment.unassign_future
    return end


def generation(consumer: AIOKafkaConsumer) -> int:
    """The group generation of a started consumer, negative once it has left: `_coordinator`, its `generation`."""
    number: int = consumer._coordinator.generation
    return number


def guard_commits(consumer: AIOKafkaConsumer, may_commit: Callable[[], bool]) -> None:
    """Have a started consumer commit only while `may_commit()` is true, and ignore the errors of abandoned commits:
    `_coordinator`, its `_do_commit_offsets`.

    aiokafka commits in its current generation; once it has left its group it commits in none, which Kafka accepts if
    the group is empty. The task that sends a commit goes on when `commit` is cancelled, and its error would be logged
    as never retrieved.
    """
    coordinator = consumer._coordinator
    commit = coordinator._do_commit_offsets

    async def guarded_commit(*arguments: Any) -> None:
        if not may_commit():
            raise IllegalGenerationError
        await commit(*arguments)

    def start_commit(*arguments: Any) -> asyncio.Task[None]:
        committing = asyncio.ensure_future(guarded_commit(*arguments))
        committing.add_done_callback(lambda task: task.cancelled() or task.exception())
        return committing

    coordinator._do_commit_offsets = start_commit


def read_group_errors(consumer: AIOKafkaConsumer) -> None:
    """Have a started consumer notice that its group's offsets are unavailable: `_coordinator`, its `_send_req` and
    `coordinator_dead`.

    A broker that is no longer the group's coordinator, or still loads the group, returns one error code for all
    partitions, and lists none. aiokafka ignores that code, and takes the partitions for ones that were never committed.
    """
    coordinator = consumer._coordinator
    send, forget_coordinator = coordinator._send_req, coordinator.coordinator_dead

    async def checked_send(request: Any) -> Any:
        response = await send(request)
        code = getattr(response, "error_code", 0) if isinstance(request, OffsetFetchRequest) else 0
        if code:
            error = for_code(code)
            if error is NotCoordinatorForGroupError:
                forget_coordinator()
            raise error("the broker returns no offsets of the group")
        return response

    coordinator._send_req = checked_send


def join_anew(consumer: AIOKafkaConsumer) -> None:
    """Have a started consumer rejoin its group: `_coordinator`, its `request_rejoin`.

    If a heartbeat or an offset lookup gets an error code that aiokafka doesn't expect, its task ends, and each poll
    raises that error. Rejoining starts both tasks again.
    """
    consumer._coordinator.request_rejoin()


def replace_batch_reader(reader: type) -> None:
    """Have all consumers read the batches of a fetch with this class: replaces `MemoryRecords` of the fetcher.

    aiokafka's own raises for a record that can't be decoded, which loses the records already drained from other
    partitions, and expands a compressed batch without a limit. Raises AttributeError if another class is in place.
    """
    if fetcher.MemoryRecords not in (MemoryRecords, reader):
        raise AttributeError("this version of aiokafka reads the batches of a fetch with another class than expected")
    fetcher.MemoryRecords = reader


def legacy_batch(content: bytes) -> Any:
    """A complete batch in a format before version 2, decoded by aiokafka: `record.memory_records.MemoryRecords`."""
    return MemoryRecords(content).next_batch()


def record_batch(content: bytes) -> Any:
    """A complete batch in version 2 of the format, decoded by aiokafka: `record.default_records.DefaultRecordBatch`."""
    return DefaultRecordBatch(content)
