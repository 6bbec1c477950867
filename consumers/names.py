"""Fill in the names of objects that submissions left out, by the resolvers of their types."""

import asyncio
from collections.abc import Collection, Sequence
from time import monotonic
from typing import Final

import structlog

from consumers.names_known import KnownNames
from domain.entity_types import RESOLVE_S, EntityTypes, PartlyResolvedError, Resolver, ResolverError
from domain.ratings import Entity
from storage.pymongo_internals import side_by_side
from storage.ratings.objects import RatedObjectRepository
from storage.reviews.repository import ReviewRepository

log = structlog.get_logger()

LARGEST_BATCH: Final = 100
_GROWTH: Final = 10
_PAGE: Final = 1_000

POLL_S: Final = 1.0
"""Seconds to wait after a query that found no name to fill in."""

_IDLE_PAGES: Final = 10
"""Number of pages of unknown names that are read again every POLL_S; more pages are read less often."""

SHORTEST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_AWAY_S: Final = 10.0
"""Maximum seconds between attempts while a resolver fails, so that it is asked soon after its recovery."""

LONGEST_PAUSE_UNKNOWN_S: Final = 600.0
"""Maximum seconds between requests for an id that a resolver doesn't know; it may learn it later."""

_MOST_PAUSES: Final = 50_000
_MOST_ATTEMPTS: Final = 10
"""A pause doesn't grow any more after these."""


async def fill_names(
    reviews: ReviewRepository, rated: RatedObjectRepository, types: EntityTypes, known: KnownNames
) -> None:
    """Run until cancelled; returns at once if no type has a resolver.

    Reviews are marked as wanting a name, so nothing is lost if a worker dies, and several workers at worst do the same
    work twice. Each type has its own task, so that a hanging resolver doesn't hold up the others.
    """
    types_names = [TypeNames(t.entity_type, t.get_entity, reviews, rated, known) for t in types if t.get_entity]
    await side_by_side(*(names.keep_filling() for names in types_names))


class TypeNames:
    """Fills in the names of objects of one type.

    Cycles by id through all missing names; of a page, ids that were never asked for come first. A failed batch is
    retried with fewer ids, down to one, so that neither a slow resolver nor a single id holds up the others. Ids
    without a name, and a failing resolver, are retried with exponential backoff.
    """

    def __init__(
        self,
        type: str,
        resolver: Resolver,
        reviews: ReviewRepository,
        rated: RatedObjectRepository,
        known: KnownNames,
    ) -> None:
        self._type = type
        self._resolver = resolver
        self._reviews = reviews
        self._rated = rated
        self._known = known
        self._pauses = Pauses()
        self._batch_size = LARGEST_BATCH
        self._failures = 0
        self._after = ""
        self._idle_pages = 0
        self._is_indexed = False

    async def keep_filling(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                if not self._is_indexed:
                    await self._reviews.index_wanted_names()
                    self._is_indexed = True
                pause = await self.fill_some()
            except Exception as error:
                self._failures += 1
                self._report(error)
                pause = growing_pause(self._failures, LONGEST_PAUSE_AWAY_S)
            await asyncio.sleep(pause)

    async def fill_some(self) -> float:
        """Fill in the names of one batch; returns the seconds to wait before the next one."""
        wanted = await self._reviews.wanted_names(self._type, after=self._after, limit=_PAGE)
        now = monotonic()
        due = sorted((id for id in wanted.ids if self._pauses.is_over(id, now)), key=self._pauses.attempts)
        if not due:
            self._after = wanted.ids[-1] if wanted.is_more else ""
            self._idle_pages += 1
            if wanted.is_more:
                return 0.0
            self._pauses.end_round(now)
            return self._pause_after_all()
        batch = due[: self._batch_size]
        try:
            await self._fill(batch)
        except Exception:
            self._batch_size = max(1, len(batch) // 2)
            if len(batch) == 1:
                self._pauses.begin(batch[0], monotonic(), LONGEST_PAUSE_AWAY_S)
            raise
        if self._failures:
            log.info("names can be resolved again", entity_type=self._type)
            self._failures = 0
        self._batch_size = min(LARGEST_BATCH, self._batch_size + _GROWTH)
        return 0.0

    async def _fill(self, ids: Sequence[str]) -> None:
        failed: Collection[str] = ()
        try:
            async with asyncio.timeout(RESOLVE_S):
                resolved = await self._resolver(ids)
        except PartlyResolvedError as error:
            resolved, failed = error.found, error.failed
            # Warn once per id; the other ids aren't slowed down.
            report = log.warning if any(self._pauses.attempts(id) == 0 for id in failed) else log.debug
            report("some names can't be resolved", entity_type=self._type, error=str(error), ids=len(failed))
        names = {id: resolved[id].name for id in ids if id in resolved}
        for id, name in names.items():
            self._known.learn(Entity(self._type, id), name)
        # Cache first, then fill in: a submission between the two finds the name, or is found by the next round.
        await self._reviews.fill_names(self._type, names)
        await self._rated.forget_names([Entity(self._type, id) for id in names])
        now = monotonic()
        for id in ids:
            if id in names:
                self._pauses.end(id)
            else:
                self._pauses.begin(id, now, LONGEST_PAUSE_AWAY_S if id in failed else LONGEST_PAUSE_UNKNOWN_S)

    def _pause_after_all(self) -> float:
        pages, self._idle_pages = self._idle_pages, 0
        return min(LONGEST_PAUSE_AWAY_S, POLL_S * max(1.0, pages / _IDLE_PAGES))

    def _report(self, error: Exception) -> None:
        # Messages of other code may contain ids and names; those of our resolvers don't.
        reason = str(error) if isinstance(error, ResolverError) else type(error).__name__
        report = log.warning if self._failures == 1 else log.debug
        report("names can't be resolved", entity_type=self._type, error=reason, attempt=self._failures)


class Pauses:
    """Exponential backoff of requests for ids that have no name yet.

    Beyond _MOST_PAUSES ids the oldest pauses are dropped. From then on, ids without one are asked for only once in
    LONGEST_PAUSE_UNKNOWN_S, also new ones.
    """

    def __init__(self) -> None:
        self._pauses: dict[str, tuple[int, float]] = {}
        self._has_dropped = False
        self._others = (0, float("-inf"))

    def attempts(self, id: str) -> int:
        """Number of requests for an id that failed; of one whose pause was dropped, as many as lead to the longest."""
        return self._pauses.get(id, self._others)[0]

    def is_over(self, id: str, now: float) -> bool:
        """True once its pause has ended."""
        return self._pauses.get(id, self._others)[1] <= now

    def begin(self, id: str, now: float, longest: float) -> None:
        """Begin the next, longer pause, of at most `longest` seconds."""
        attempts = self.attempts(id) + 1
        self._pauses.pop(id, None)
        self._pauses[id] = (attempts, now + growing_pause(attempts, longest))
        if len(self._pauses) > _MOST_PAUSES:
            del self._pauses[next(iter(self._pauses))]
            self._has_dropped = True

    def end(self, id: str) -> None:
        """Drop the pause of an id whose name was found."""
        self._pauses.pop(id, None)

    def end_round(self, now: float) -> None:
        """All ids that were due have been asked for: those whose pauses were dropped have one together."""
        if self._has_dropped:
            self._others, self._has_dropped = (_MOST_ATTEMPTS, now + LONGEST_PAUSE_UNKNOWN_S), False


def growing_pause(attempts: int, longest: float) -> float:
    """Seconds to wait after these failed attempts: doubled each time, up to `longest`."""
    return min(longest, SHORTEST_PAUSE_S * 2.0 ** min(attempts - 1, 30))
