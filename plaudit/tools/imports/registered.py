"""The stores that are registered: reviews of others are refused by the workers, when the import is long over."""

from __future__ import annotations

from collections.abc import Set
from functools import partial

from plaudit.config import Settings
from plaudit.processes.connections import connected_database
from plaudit.processes.waiting import patiently
from plaudit.tools.servers import check_database
from storage.stores import StoreRepository


class Registered:
    """Looks up stores, and remembers those that it found."""

    def __init__(self, settings: Settings) -> None:
        self._client, self._database = connected_database(settings, timeout=settings.mongo.timeout)
        self._found: set[str] = set()

    async def missing(self, ids: Set[str]) -> Set[str]:
        """Those of these stores that aren't registered. Raises CommandError for a database of somebody else."""
        unknown = ids - self._found
        if not unknown:
            return unknown
        await check_database(self._database)
        self._found |= (await patiently("MongoDB", partial(StoreRepository(self._database).of_ids, unknown))).keys()
        return unknown - self._found

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()
