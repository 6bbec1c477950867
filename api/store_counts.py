"""Counts over all reviews of a store, which take seconds and more, and so are cached for minutes."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import Final

from api.web.shared_queries import CachedQueries
from domain.feed import MOST_BYTES, MOST_REVIEWS, feed_bytes
from domain.policy import Decisions
from domain.reviews import ReviewStatus
from storage.database import SOON_S, Database, is_too_slow, time_limit
from storage.policy import DecisionCounts
from storage.reviews.extents import Extent, Extents
from storage.reviews.search import ReviewSearch

_DECISIONS_AGE_S: Final = 600.0
_EXTENTS_AGE_S: Final = 60.0
"""Shorter, since anyone may request a feed."""
_EXTENTS_TIMEOUT_S: Final = 5.0
"""Seconds for the extents of all feeds that are requested together."""
_TOO_LARGE: Final = Extent(MOST_REVIEWS, MOST_BYTES)


class StoreCounts:
    """Counts over all reviews of a store; concurrent requests share one query."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._decision_counts, self._extents = DecisionCounts(database), Extents(database)
        self._decisions = CachedQueries(self._decisions_of, _DECISIONS_AGE_S)
        self._feeds = CachedQueries(self._extents_of, _EXTENTS_AGE_S)

    async def decisions(self, store_id: str) -> tuple[Decisions, datetime]:
        """The decisions about the newest reviews of a store, and the time when they were counted, at most ten minutes
        ago."""
        return (await self._decisions.of([store_id]))[store_id]

    async def extent_of_feed(self, store_id: str) -> Extent:
        """The size of a store's approved reviews, at most a minute old, counted up to the limits of a feed in one file;
        beyond these if counting takes too long."""
        return (await self._feeds.of([store_id]))[store_id]

    async def _decisions_of(self, ids: Collection[str]) -> Mapping[str, tuple[Decisions, datetime]]:
        now = datetime.now(UTC)
        return {id: (await self._decision_counts.newest(id), now) for id in ids}

    async def _extents_of(self, store_ids: Collection[str]) -> Mapping[str, Extent]:
        """The extents of feeds, one after the other, within _EXTENTS_TIMEOUT_S in total."""
        extents, deadline = {}, monotonic() + _EXTENTS_TIMEOUT_S
        for id in store_ids:
            try:
                # Later ones get at least SOON_S each.
                with time_limit(self._database, max(SOON_S, deadline - monotonic())):
                    extents[id] = await self._extent(id)
            except Exception as error:
                if not is_too_slow(error):
                    raise
                extents[id] = _TOO_LARGE
        return extents

    async def _extent(self, store_id: str) -> Extent:
        search = ReviewSearch(statuses=[ReviewStatus.APPROVED], store_id=store_id, take=MOST_REVIEWS)
        extent = await self._extents.extent(search)
        if feed_bytes(*extent) > MOST_BYTES:
            return extent
        return extent._replace(object_bytes=await self._extents.object_bytes(search))
