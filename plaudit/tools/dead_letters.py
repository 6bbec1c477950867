"""`plaudit dlq show`, and the records of the dead-letter topics for the other tools."""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from aiokafka import TopicPartition

from domain.timestamps import timestamp
from messaging.dead_letters_codes import DeadLetterCode
from messaging.dead_letters_replays import LetterPlace, header, moment_of, optional_text_of, text_of
from messaging.decoding import RawRecord
from messaging.kafka.administration import admin_client, partitions_of
from messaging.kafka.topic_reader import TopicReader
from messaging.topics import CONSUMED, DEAD_LETTER_SUFFIX, Topic, TopicNames
from plaudit.config import Settings
from plaudit.errors import CommandError, UsageError
from plaudit.processes.waiting import existing_topics
from plaudit.terminal import Terminal, shown
from plaudit.tools.servers import missing_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A selection of dead letters: those that match every criterion that is set, at most `limit` of them.

    `places` name single letters, each selected once, and exclude the other criteria.
    """

    topics: Sequence[str] | None = None
    codes: Sequence[DeadLetterCode] | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int | None = None
    places: Sequence[LetterPlace] = ()

    @property
    def names_letters(self) -> bool:
        """True if single letters are named."""
        return bool(self.places)

    @property
    def is_everything(self) -> bool:
        """True if no criterion is set."""
        return not (self._has_criteria or self.names_letters)

    def check(self) -> None:
        """Raises UsageError: other criteria are set beside places."""
        if self.names_letters and self._has_criteria:
            raise UsageError("Places name single letters: omit --topic, --code, --since and --until.")

    @property
    def _has_criteria(self) -> bool:
        return bool(self.topics or self.codes or self.since or self.until)


async def show_dead_letter(settings: Settings, out: Terminal, topic: str, partition: int, offset: int) -> None:
    """Print a letter. Raises UsageError or CommandError."""
    (named,) = topics_of(settings.topics, (topic,))
    wanted = Filter(places=[LetterPlace(named, partition, offset)])
    async for (letter,) in dead_letters(settings, wanted):
        out.set_result(_shown_letter(letter))
        out.print(f"topic      {letter.topic}")
        out.print(f"partition  {letter.partition}\noffset     {letter.offset}")
        out.print(f"time       {timestamp(moment_of(letter.timestamp))}")
        out.print(f"key        {shown_text(letter.key)}")
        for name, value in letter.headers:
            out.print(f"header     {shown(name)}: {shown_text(value)}")
        out.print("value", "(none)" if letter.value is None else "")
        text = text_of(letter.value or b"")
        out.print("\n".join(shown(line) for line in text.splitlines()))


async def dead_letters(settings: Settings, wanted: Filter) -> AsyncIterator[list[RawRecord]]:
    """The current letters in batches: topics in the order of the flow, each partition in its own order.

    Waits until Kafka answers. Ignores `limit`, which `letters_with_state` applies.

    Raises UsageError: a topic has no dead letters. Raises CommandError: a place holds none, or no dead-letter topic
    exists, so that the prefix or the address of Kafka must be wrong.
    """
    names = [settings.topics.dead_letters(topic) for topic in topics_of(settings.topics, wanted.topics)]
    connection = settings.kafka_connection()
    there = await existing_topics(connection)
    if there.isdisjoint(names):
        raise missing_topic(settings, names[0], there)
    async with admin_client(connection) as admin:
        partitions = await partitions_of(admin, [name for name in names if name in there])
    async with TopicReader.open(connection) as reader:
        if wanted.names_letters:
            in_order = sorted(set(wanted.places), key=lambda place: place.sort_key)
            named = [(settings.topics.dead_letters(p.topic), p.partition, p.offset) for p in in_order]
            found = _letters_at(reader, partitions, named)
        else:
            found = _letters_of_topics(reader, partitions, names, wanted)
        async for letters in found:
            yield letters


async def _letters_at(
    reader: TopicReader, partitions: Collection[TopicPartition], named: Sequence[tuple[str, int, int]]
) -> AsyncIterator[list[RawRecord]]:
    for name, partition, offset in named:
        at = TopicPartition(name, partition)
        letter = await reader.record(at, offset) if at in partitions else None
        if letter is None:
            raise CommandError(f"There is no dead letter at {name} {partition} {offset}.")
        yield [letter]


async def _letters_of_topics(
    reader: TopicReader, partitions: Collection[TopicPartition], names: Sequence[str], wanted: Filter
) -> AsyncIterator[list[RawRecord]]:
    for name in names:
        of_topic = [each for each in partitions if each.topic == name]
        async for records in reader.batches(of_topic, since=wanted.since):
            letters = [record for record in records if _is_wanted(record, wanted)]
            if letters:
                yield letters


def topics_of(names: TopicNames, wanted: Sequence[str] | None) -> list[Topic]:
    """The topics named with or without prefix and suffix, in the order of the flow; all of them if none is named.

    Raises UsageError: one has no dead letters.
    """
    found = set()
    for text in wanted or ():
        bare = text.removesuffix(DEAD_LETTER_SUFFIX)
        match = [topic for topic in CONSUMED if bare in (topic.value, names.name(topic))]
        if not match:
            raise UsageError(f"{text} has no dead letters. Topics that have: {', '.join(CONSUMED)}.")
        found.update(match)
    return [topic for topic in CONSUMED if not wanted or topic in found]


def _is_wanted(letter: RawRecord, wanted: Filter) -> bool:
    if wanted.until is not None and letter.timestamp >= wanted.until.timestamp() * 1000:
        return False
    return not wanted.codes or header(letter, "x-error-code") in wanted.codes


def _shown_letter(letter: RawRecord) -> dict[str, object]:
    return {
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "at": timestamp(moment_of(letter.timestamp)),
        "key": optional_text_of(letter.key),
        "headers": [(name, optional_text_of(value)) for name, value in letter.headers],
        "value": optional_text_of(letter.value),
    }


def shown_text(data: bytes | None) -> str:
    """The text for one line of a terminal; a dash for no bytes."""
    return "-" if data is None else shown(text_of(data))
