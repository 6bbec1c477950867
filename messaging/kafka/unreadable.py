"""Records of a fetch that no attempt could decode, and the errors that indicate them."""

import time
from collections.abc import Iterable
from typing import Final

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import CorruptRecordException, KafkaError, RecordTooLargeError, UnsupportedCodecError

from messaging.dead_letters_codes import DeadLetterCode
from messaging.decoding import RawRecord
from messaging.kafka.connection import is_broker_away
from messaging.kafka.record_batches import UnreadableValue

TRIES: Final = 3
"""Attempts at a record before it is given up: one that was damaged in transit is intact when fetched again."""

_RECORD_ERRORS: Final = (CorruptRecordException, RecordTooLargeError, UnsupportedCodecError)


def is_of_records(error: BaseException) -> bool:
    """True if a poll raises this error because of a record.

    aiokafka's other errors are those of the connection or the group: a poll also raises the errors of heartbeats and
    joins, as plain KafkaErrors for any unexpected response of a broker.
    """
    return isinstance(error, _RECORD_ERRORS) or not (isinstance(error, KafkaError) or is_broker_away(error))


def unreadable_record(partition: TopicPartition, offset: int, error: Exception) -> RawRecord:
    """The stand-in for a record that can't be read."""
    value = UnreadableValue(b"", DeadLetterCode.UNDECODABLE, f"{type(error).__name__}: {error}")
    now = int(time.time() * 1000)
    record: RawRecord = ConsumerRecord(
        partition.topic, partition.partition, offset, now, 0, None, value, None, -1, 0, ()
    )
    return record


class Attempts:
    """The record of each partition that has failed since the last successful read, and the number of its failures."""

    def __init__(self) -> None:
        self._failed: dict[TopicPartition, tuple[int, int]] = {}

    def are_over(self, partition: TopicPartition, offset: int) -> bool:
        """Record a failure of this record; True if it is given up."""
        failed_at, failures = self._failed.get(partition, (offset, 0))
        if offset == failed_at:
            count = failures + 1
        elif offset == failed_at + 1 and failures >= TRIES:
            # A batch that is damaged as a whole fails for each of its records: those after the first get one attempt.
            count = TRIES
        else:
            count = 1
        self._failed[partition] = offset, count
        return count >= TRIES

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget failures in these partitions, whose records were read: the next failure is a new one."""
        for partition in partitions:
            self._failed.pop(partition, None)
