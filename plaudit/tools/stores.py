"""Checks of stores and object types that options of commands, or rows of an import, name."""

from collections.abc import Sequence, Set
from functools import partial
from typing import Final

from domain.quantities import listed
from plaudit.config import Settings
from plaudit.errors import CommandError
from plaudit.processes.connections import connected_database
from plaudit.processes.waiting import patiently
from plaudit.terminal import shown
from plaudit.tools.servers import check_database
from storage.database import Database
from storage.reviews.repository import ReviewRepository
from storage.reviews.search import ReviewSearch
from storage.reviews.types import reviewed_types
from storage.stores import StoreRepository

_MOST_NAMED: Final = 20


async def check_registered(database: Database, id: str | None) -> None:
    """Raises CommandError: the store is neither registered nor has a review. None stands for all stores."""
    if id is None:
        return

    async def is_known() -> bool:
        if await StoreRepository(database).get(id) is not None:
            return True
        return bool((await ReviewRepository(database).search(ReviewSearch(store_id=id, take=1))).reviews)

    if not await patiently("MongoDB", is_known):
        raise await unknown_store(database, id)


async def unknown_store(database: Database, id: str) -> CommandError:
    """The error of a command that names an unknown store; it lists those that exist."""
    stores = await patiently("MongoDB", StoreRepository(database).all)
    return CommandError(f"There is no store {shown(id)}. The stores are: {_listed([store.id for store in stores])}.")


async def check_entity_type(database: Database, entity_type: str | None) -> None:
    """Raises CommandError: no object of the type has a review. None stands for all types."""
    if entity_type is None:
        return
    types = await patiently("MongoDB", partial(reviewed_types, database))
    if types is not None and entity_type not in types:
        raise CommandError(f"No review is of the type {shown(entity_type)}. The types are: {_listed(types)}.")


def _listed(names: Sequence[str]) -> str:
    return listed([shown(name) for name in names], _MOST_NAMED) or "none yet"


class Registered:
    """Looks up stores for an import, and caches those it finds: workers would later refuse reviews of others."""

    def __init__(self, settings: Settings) -> None:
        self._client, self._database = connected_database(settings, timeout=settings.mongo.timeout)
        self._found: set[str] = set()

    async def missing(self, ids: Set[str]) -> Set[str]:
        """The ids among these that aren't registered. Raises what `check_database` does."""
        unknown = ids - self._found
        if not unknown:
            return unknown
        await check_database(self._database)
        self._found |= (await patiently("MongoDB", partial(StoreRepository(self._database).of_ids, unknown))).keys()
        return unknown - self._found

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()
