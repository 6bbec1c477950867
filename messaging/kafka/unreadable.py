"""Records that a fetch has brought and no attempt could decode, and the errors that tell of such."""

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
"""Attempts at a record before it is given up: one that was damaged in transit is whole when it is fetched again."""

_OF_RECORDS: Final = (CorruptRecordException, RecordTooLargeError, UnsupportedCodecError)


def is_of_records(error: BaseException) -> bool:
    """True if a poll raises this for a record.

    What aiokafka raises else is of the connection or of the group, whose heartbeats and joins end by a poll, too, as
    plain KafkaErrors for whatever a broker answers unforeseen.
    """
    return isinstance(error, _OF_RECORDS) or not (isinstance(error, KafkaError) or is_broker_away(error))


def unreadable_record(partition: TopicPartition, offset: int, error: Exception) -> RawRecord:
    """The stand-in for a record that can't be read."""
    value = UnreadableValue(b"", DeadLetterCode.UNDECODABLE, f"{type(error).__name__}: {error}")
    now = int(time.time() * 1000)
    record: RawRecord = ConsumerRecord(
        partition.topic, partition.partition, offset, now, 0, None, value, None, -1, 0, ()
    )
    return record


class Attempts:
    """The record of each partition that raised since one was read, and how often it did."""

    def __init__(self) -> None:
        self._failed: dict[TopicPartition, tuple[int, int]] = {}

    def are_over(self, partition: TopicPartition, offset: int) -> bool:
        """Note that the record there raised; True if it is given up.

        A batch that is damaged as a whole fails for each of its records: those behind the first get one attempt.
        """
        failed_at, count = self._failed.get(partition, (offset, 0))
        is_behind = offset == failed_at + 1 and count >= TRIES
        count = count + 1 if offset == failed_at else TRIES if is_behind else 1
        self._failed[partition] = offset, count
        return count >= TRIES

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Records of these were read: what raises next is another one, or this one anew."""
        for partition in partitions:
            self._failed.pop(partition, None)
