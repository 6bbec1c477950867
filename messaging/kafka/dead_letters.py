"""Dead letters in Kafka, read by place or newest first: a few at a time, however many there are."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from aiokafka import TopicPartition

from messaging.dead_letters_codes import DeadLetterCode
from messaging.dead_letters_replays import REPLAYED_FROM, LetterPlace, header, letter_id
from messaging.decoding import RawRecord
from messaging.kafka.administration import admin_client, partitions_of
from messaging.kafka.connection import KafkaConnection, in_time
from messaging.kafka.topic_reader import TopicReader
from messaging.topics import CONSUMED, Topic, TopicNames

PREVIEW_BYTES: Final = 4 * 1024
"""Bytes of a value that a list shows."""

_TEXT_LENGTH: Final = 1_000
_CONCURRENT_READS: Final = 2
_TIMEOUT_S: Final = 10.0
_NO_ANSWER: Final = "Kafka did not answer in time"
_SEARCH_S: Final = 4.0
_MAX_SEARCHED: Final = 5_000
"""Maximum number of letters examined for a page, however few of them match."""

_CHUNK: Final = 25
"""Number of letters of one partition that are read at a time, from its end backwards."""

Ends = Mapping[tuple[Topic, int], int]
"""The offset in each partition before which the next page begins."""


@dataclass(frozen=True, slots=True)
class LetterPreview:
    """A dead letter as a list shows it: its texts and its value are cut short."""

    place: LetterPlace
    id: str
    timestamp: int
    """Milliseconds since 1970."""
    code: str
    reason: str
    replayed_from: str
    """The id of the first letter in its chain of replays; empty without one."""
    key: bytes | None
    value: bytes | None
    value_bytes: int
    """Size of the whole value."""


@dataclass(frozen=True, slots=True)
class Search:
    """Criteria of a list: letters with this code (None: any) whose ids `chosen` returns (None: all)."""

    code: DeadLetterCode | None
    chosen: Callable[[Sequence[str]], Awaitable[Collection[str]]] | None

    async def among(self, letters: Sequence[LetterPreview]) -> set[str]:
        """The ids of those of these letters that match."""
        ids = [letter.id for letter in letters if self.code in (None, letter.code)]
        return set(await self.chosen(ids) if ids and self.chosen is not None else ids)


@dataclass(frozen=True, slots=True)
class FoundLetters:
    """Dead letters, newest first, and the start of the next page: None if there is nothing more."""

    letters: list[LetterPreview]
    rest: Ends | None


class DeadLetterTopics:
    """Reads dead letters without a consumer group, and commits nothing.

    At most two reads of a process run at a time, which bounds the memory for Kafka's responses. Raises BrokerAwayError
    if Kafka doesn't respond within seconds, or aiokafka's errors if it is unavailable.
    """

    def __init__(self, connection: KafkaConnection, topics: TopicNames) -> None:
        self._connection = connection
        self._topics = topics
        self._read_slots = asyncio.Semaphore(_CONCURRENT_READS)

    @asynccontextmanager
    async def open(self) -> "AsyncIterator[OpenedLetters]":
        """The present letters, with a connection that lasts for the block."""
        names = {self._topics.dead_letters(topic): topic for topic in CONSUMED}
        async with self._read_slots, AsyncExitStack() as stack:
            async with in_time(_TIMEOUT_S, _NO_ANSWER):
                async with admin_client(self._connection) as admin:
                    partitions = await partitions_of(admin, list(names))
                reader = await stack.enter_async_context(TopicReader.open(self._connection))
            yield OpenedLetters(reader, {p: LetterPlace(names[p.topic], p.partition, 0) for p in partitions})


@dataclass(frozen=True, slots=True)
class OpenedLetters:
    """The dead letters of some partitions, each with its first place."""

    reader: TopicReader
    partitions: Mapping[TopicPartition, LetterPlace]

    async def at(self, place: LetterPlace) -> RawRecord | None:
        """The letter at a place; None if there is none (any more)."""
        for partition, first in self.partitions.items():
            if (first.topic, first.partition) == (place.topic, place.partition):
                async with in_time(_TIMEOUT_S, _NO_ANSWER):
                    return await self.reader.record(partition, place.offset)
        return None

    async def newest(
        self, topics: Collection[Topic], *, take: int, search: Search, ends: Ends | None = None
    ) -> FoundLetters:
        """Letters of these topics that match the search, newest first, before `ends`.

        A search with few matches ends after thousands of letters or a few seconds; `rest` is where to continue.
        """
        async with in_time(_TIMEOUT_S, _NO_ANSWER):
            spans = await self.reader.spans([p for p, first in self.partitions.items() if first.topic in topics])
        left = {p: self._span_before(p, span, ends) for p, span in spans.items()}
        merge = _Merge(self, {p: span for p, span in left.items() if span})
        letters = await merge.take(take, search)
        return FoundLetters(letters, merge.rest())

    def _span_before(self, partition: TopicPartition, span: range, ends: Ends | None) -> range:
        first = self.partitions[partition]
        end = span.stop if ends is None else ends.get((first.topic, first.partition), span.start)
        return range(span.start, min(span.stop, end))


@dataclass(slots=True)
class _Merge:
    """Partitions read backwards and merged by the timestamps of their letters; `left` has the offsets not taken yet."""

    letters: OpenedLetters
    left: dict[TopicPartition, range]
    waiting: dict[TopicPartition, list[LetterPreview]] = field(default_factory=dict)

    async def take(self, wanted: int, search: Search) -> list[LetterPreview]:
        """The newest letters that match the search, at most `wanted`."""
        deadline, found, searched = monotonic() + _SEARCH_S, list[LetterPreview](), 0
        # Reads are limited, not the whole search: its look-ups wait for MongoDB, which has limits of its own.
        async with in_time(_TIMEOUT_S, _NO_ANSWER):
            await self._read({partition: span[-1:] for partition, span in self.left.items()})
        chosen = await search.among([each for letters in self.waiting.values() for each in letters])
        while len(found) < wanted and searched < _MAX_SEARCHED and monotonic() < deadline:
            for partition in [partition for partition in self.left if not self.waiting.get(partition)]:
                async with in_time(_TIMEOUT_S, _NO_ANSWER):
                    await self._read_chunk(partition)
                chosen |= await search.among(self.waiting.get(partition, ()))
            if not self.left:
                break
            partition = max(
                self.left, key=lambda each: (self.waiting[each][-1].timestamp, self.waiting[each][-1].place.sort_key)
            )
            letter = self.waiting[partition].pop()
            self.left[partition] = range(self.left[partition].start, letter.place.offset)
            searched += 1
            if letter.id in chosen:
                found.append(letter)
        return found

    def rest(self) -> Ends | None:
        """The ends before which letters are left; None if there are none."""
        ends = {}
        for partition, span in self.left.items():
            first = self.letters.partitions[partition]
            if span:
                ends[first.topic, first.partition] = span.stop
        return ends or None

    async def _read_chunk(self, partition: TopicPartition) -> None:
        """Read the end of a partition, or drop it if nothing is left of it. Some offsets have no letter."""
        while (span := self.left[partition]) and not self.waiting.get(partition):
            chunk = span[-_CHUNK:]
            await self._read({partition: chunk})
            if not self.waiting.get(partition):
                self.left[partition] = range(span.start, chunk.start)
        if not self.left[partition]:
            del self.left[partition]

    async def _read(self, spans: Mapping[TopicPartition, range]) -> None:
        async for records in self.letters.reader.between(spans):
            for record in records:
                partition = TopicPartition(record.topic, record.partition)
                first = self.letters.partitions[partition]
                at = LetterPlace(first.topic, first.partition, record.offset)
                self.waiting.setdefault(partition, []).append(preview_of(record, at))


def preview_of(letter: RawRecord, place: LetterPlace, value_bytes: int = PREVIEW_BYTES) -> LetterPreview:
    """A letter at this place as a list shows it, with at most `value_bytes` of its value."""
    return LetterPreview(
        place,
        letter_id(letter),
        letter.timestamp,
        header(letter, "x-error-code")[:_TEXT_LENGTH],
        header(letter, "x-error-message")[:_TEXT_LENGTH],
        header(letter, REPLAYED_FROM)[:_TEXT_LENGTH],
        None if letter.key is None else bytes(letter.key[:_TEXT_LENGTH]),
        None if letter.value is None else bytes(letter.value[:value_bytes]),
        len(letter.value or b""),
    )
