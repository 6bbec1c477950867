"""Stores and types of objects that commands are told to look at."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from plaudit.cli.command_line import CommandError
from plaudit.cli.terminal import shown
from plaudit.processes.waiting import patiently
from storage.database import Database
from storage.reviews import ReviewRepository
from storage.reviews_search import ReviewSearch
from storage.reviews_types import reviewed_types
from storage.stores import StoreRepository

_NAMED: Final = 20


async def check_store(database: Database, id: str | None) -> None:
    """Raises CommandError for a store that is neither registered nor has a review; None is all stores."""
    if id is None:
        return

    async def is_known() -> bool:
        if await StoreRepository(database).get(id) is not None:
            return True
        return bool((await ReviewRepository(database).search(ReviewSearch(store_id=id, take=1))).reviews)

    if await patiently("MongoDB", is_known):
        return
    stores = await patiently("MongoDB", StoreRepository(database).all)
    raise CommandError(f"There is no store {shown(id)}. The stores are: {_listed([store.id for store in stores])}.")


async def check_entity_type(database: Database, entity_type: str | None) -> None:
    """Raises CommandError for a type of which no object has a review; None is all types."""
    if entity_type is None:
        return
    types = await patiently("MongoDB", partial(reviewed_types, database))
    if types is not None and entity_type not in types:
        raise CommandError(f"No review is of the type {shown(entity_type)}. The types are: {_listed(types)}.")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (", ".join(map(shown, names[:_NAMED])) or "none yet") + more
