"""Dead letters and their states: open, replayed or discarded.

A letter L1 that is replayed twice and fails both times:
1. A replay of L1 writes the mark {_id: L1, count: 1} into `replayedDeadLetters`, its message into `outbox` until Kafka
   has it, and an entry into `auditLog`. L1 is replayed.
2. The message fails: letter L2 arrives, with the header `x-replayed-from: L1` and without a mark. L2 is open and
   `failed_again`, L1 `came_back`. `times` is 1 for both.
3. A replay of L2, by its place or with `--again`, writes {_id: L2, count: 1}, sets the count of L1 to 2, and adds to
   the other two collections as before. The header of the message is still L1.
4. It fails: L3 arrives with that header. L3 is open, with `times` 2 from the mark of L1. L1 and L2 `came_back`.
"""

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from messaging.dead_letters_replays import LetterPlace, LetterState, first_letter_id, letter_id
from messaging.decoding import RawRecord
from plaudit.config import Settings
from plaudit.tools.dead_letters import Filter, dead_letters, topics_of
from storage.database import Database
from storage.dead_letters_replays import UNMARKED, LetterMark, ReplayRepository

_Position = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class LetterWithState:
    """A dead letter and its state."""

    letter: RawRecord
    place: LetterPlace
    state: LetterState
    times: int
    """Number of replays of its chain."""

    came_back: bool
    """True if another letter replaces it, because its replay failed."""

    @property
    def failed_again(self) -> bool:
        """True for an open letter that results from a replay."""
        return self.state is LetterState.OPEN and first_letter_id(self.letter) != letter_id(self.letter)


@dataclass(slots=True)
class _Chains:
    """Chains of letters: a first letter and those that result from its replays. The newest one stands for its chain."""

    newest: dict[bytes, _Position] = field(default_factory=dict)
    firsts: set[str] = field(default_factory=set)

    def add(self, letter: RawRecord) -> None:
        first = first_letter_id(letter)
        if first != letter_id(letter):
            chain, position = _chain_of(letter, first), _position_of(letter)
            self.firsts.add(first)
            self.newest[chain] = max(position, self.newest.get(chain, position))

    def is_outdated(self, letter: RawRecord) -> bool:
        first = first_letter_id(letter)
        newest = self.newest.get(_chain_of(letter, first))
        return first != letter_id(letter) and newest is not None and newest > _position_of(letter)


async def letters_with_state(
    settings: Settings, database: Database, wanted: Filter, states: Sequence[LetterState] = tuple(LetterState)
) -> AsyncIterator[list[LetterWithState]]:
    """The wanted letters in one of these states, in the order of `dead_letters`, at most `limit` of them.

    Raises what `dead_letters` does.
    """
    replays = ReplayRepository(database)
    chains = _Chains()
    if not await replays.is_empty() and not wanted.names_letters:
        async for letters in dead_letters(settings, Filter(topics=wanted.topics)):
            for letter in letters:
                chains.add(letter)
    topics = {settings.topics.dead_letters(topic): topic for topic in topics_of(settings.topics, ())}
    left = wanted.limit
    async for letters in dead_letters(settings, wanted):
        marks = await replays.marks({id for r in letters for id in (letter_id(r), first_letter_id(r))})
        places = [LetterPlace(topics[r.topic], r.partition, r.offset) for r in letters]
        judged = [_judge(r, place, marks, chains) for r, place in zip(letters, places, strict=True)]
        found = [each for each in judged if each.state in states][:left]
        if found:
            yield found
        if left is not None:
            left -= len(found)
            if left == 0:
                return


def _judge(letter: RawRecord, place: LetterPlace, marks: Mapping[str, LetterMark], chains: _Chains) -> LetterWithState:
    id, first = letter_id(letter), first_letter_id(letter)
    mark = marks.get(id, UNMARKED)
    is_outdated = chains.is_outdated(letter)
    state = LetterState.REPLAYED if is_outdated and mark.state is LetterState.OPEN else mark.state
    times = max(mark.times, marks.get(first, UNMARKED).times)
    return LetterWithState(letter, place, state, times, came_back=is_outdated or id in chains.firsts)


def _chain_of(letter: RawRecord, first: str) -> bytes:
    # A record may hold several commands, which fail one by one: each continues as a chain of its own.
    parts = (first.encode(), letter.topic.encode(), letter.key or b"")
    return hashlib.blake2b(b"\0".join(parts), digest_size=16).digest()


def _position_of(letter: RawRecord) -> _Position:
    return letter.timestamp, letter.partition, letter.offset
