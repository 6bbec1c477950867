"""In-memory cache of public answers: bounded, shared by all clients, and never older than a second."""

import asyncio
import gzip
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from sys import getsizeof
from time import monotonic
from typing import Final

import structlog

from api.web.large_bodies import ANSWER_THREAD
from messaging.server_errors import for_log

log = structlog.get_logger()

MOST_BYTES: Final = 32 * 1024 * 1024
AGE_S: Final = 0.9
"""Maximum age of an answer in seconds, counted from before its database queries."""

_RELOAD_S: Final = 0.45
"""Age in seconds from which a request for an answer also reloads it in the background."""

_OVERHEAD_BYTES: Final = 1_536
"""Approximate bytes of an entry without its bodies and its address."""

_BYTES_PER_ADDRESS_BYTE: Final = 5
"""Bytes per byte of an address: itself, and the parameters parsed from it, of which a character can take four."""

_MIN_GZIP_BYTES: Final = 500
"""Minimum bytes of a body that is compressed."""

_LARGE_BYTES: Final = 64 * 1024
"""Bytes above which compressing a body would block the event loop for several milliseconds."""

_DIGEST_BYTES: Final = 12


@dataclass(frozen=True)
class Answer:
    """A body with its media type, and the origins whose pages may read it."""

    body: bytes
    media_type: str = "application/json"
    origins: frozenset[str] = frozenset()

    @cached_property
    def digest(self) -> str:
        """The digest of the body, the same in every process."""
        return blake2b(self.body, digest_size=_DIGEST_BYTES).hexdigest()

    @cached_property
    def compressed(self) -> bytes | None:
        """The gzipped body; None if the body is too small for that."""
        return _compressed(self.body) if len(self.body) >= _MIN_GZIP_BYTES else None

    async def compress(self) -> None:
        """Compress a large body ahead, in a thread."""
        if len(self.body) > _LARGE_BYTES:
            # Python 3.11 locks a cached property of all objects while one is computed: the thread must not do that.
            vars(self)["compressed"] = await ANSWER_THREAD.run(_compressed, self.body)

    @property
    def size(self) -> int:
        """Approximate bytes in memory."""
        return _OVERHEAD_BYTES + len(self.body) + len(self.compressed or b"") + getsizeof(self.origins)


def _compressed(body: bytes) -> bytes:
    return gzip.compress(body, 6, mtime=0)


Load = Callable[[], Awaitable[Answer]]


@dataclass(slots=True)
class _Entry:
    answer: Answer
    asked: float
    load: Load
    size: int


@dataclass(frozen=True, slots=True)
class _Loading:
    task: asyncio.Task[Answer]
    asked: float


class Answers:
    """A cache of answers by address, of at most `most_bytes`; the least recently used ones are dropped first.

    Requests for the same address share one load, unless it began more than AGE_S seconds ago. A request for an answer
    that has reached half of its maximum age also reloads it in the background, so that nobody waits for a popular one.
    """

    def __init__(self, most_bytes: int = MOST_BYTES, clock: Callable[[], float] = monotonic) -> None:
        self._most_bytes = most_bytes
        self._clock = clock
        self._bytes = 0
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._loading: dict[bytes, _Loading] = {}

    def fresh(self, address: bytes) -> Answer | None:
        """The cached answer; None if there is none, or it is too old."""
        entry = self._entries.get(address)
        if entry is None:
            return None
        age = self._clock() - entry.asked
        if age > AGE_S:
            return None
        self._entries.move_to_end(address)
        if age > _RELOAD_S and address not in self._loading:
            self._start_load(address, entry.load)
        return entry.answer

    async def of(self, address: bytes, load: Load) -> Answer:
        """The cached answer, else a loaded one. Raises what `load` raises."""
        answer = self.fresh(address)
        if answer is not None:
            return answer
        loading = self._loading.get(address)
        if loading is None or self._clock() - loading.asked > AGE_S:
            loading = self._start_load(address, load)
        return await asyncio.shield(loading.task)

    def _start_load(self, address: bytes, load: Load) -> _Loading:
        asked = self._clock()
        task = asyncio.create_task(self._load(address, load, asked))
        loading = self._loading[address] = _Loading(task, asked)
        task.add_done_callback(lambda _: self._finish(address, loading))
        return loading

    async def _load(self, address: bytes, load: Load, asked: float) -> Answer:
        answer = await load()
        await answer.compress()
        self._keep(address, _Entry(answer, asked, load, answer.size + _BYTES_PER_ADDRESS_BYTE * len(address)))
        return answer

    def _finish(self, address: bytes, loading: _Loading) -> None:
        if self._loading.get(address) is loading:
            del self._loading[address]
        # Waiting requests receive the error. Without any, the next request loads again.
        if not loading.task.cancelled() and (error := loading.task.exception()):
            log.info("a cached response can't be refreshed", error=for_log(error))

    def _keep(self, address: bytes, entry: _Entry) -> None:
        before = self._entries.pop(address, None)
        if before and before.asked > entry.asked:
            entry = before
        self._bytes += entry.size - (before.size if before else 0)
        self._entries[address] = entry
        while self._bytes > self._most_bytes:
            _, oldest = self._entries.popitem(last=False)
            self._bytes -= oldest.size
