"""MongoDB queries over a whole collection: on a large one each would time out."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from pymongo import AsyncMongoClient, monitoring

from storage.database import Database
from tests.support.service import Json, Servers
from tests.support.targeting import conditions, questions


class FilterRecorder(monitoring.CommandListener):
    """Filters of commands to these collections, except those that stop at their first document."""

    def __init__(self, collections: Collection[str]) -> None:
        self.filters: list[tuple[str, Json]] = []
        self._collections = collections

    def unbounded(self) -> list[tuple[str, Json]]:
        """Filters that name neither ids nor a part of the id range."""
        return [each for each in self.filters if not _is_bounded(each[1])]

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        name, command = event.command_name, event.command
        if command.get(name) in self._collections and command.get("limit") != 1:
            self.filters += [(str(command[name]), dict(each.filter)) for each in questions(name, command)]

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """The filter was recorded when the command started."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """The filter was recorded when the command started."""


@asynccontextmanager
async def recorded_database(servers: Servers, questions: FilterRecorder) -> AsyncIterator[Database]:
    """A database whose queries are recorded; dropped after the block."""
    client: AsyncMongoClient[Any] = AsyncMongoClient(servers.mongo, tz_aware=True, event_listeners=[questions])
    async with client:
        database = client[f"test_{uuid4().hex[:8]}"]
        yield database
        await client.drop_database(database.name)


def _is_bounded(filter: Json) -> bool:
    """True for a filter on ids, or on an id range that excludes the first or the last one."""
    return any(name == "_id" and not {"$in", "$lte", "$gt"}.isdisjoint(asked) for name, asked in conditions(filter))
