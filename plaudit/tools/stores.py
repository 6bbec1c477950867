"""Stores that commands are told to look at, by their ids."""

from __future__ import annotations

from typing import Final

from plaudit.cli.command_line import CommandError
from plaudit.cli.terminal import shown
from plaudit.processes.waiting import patiently
from storage.database import Database
from storage.reviews import ReviewRepository
from storage.reviews_search import ReviewSearch
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
    there = ", ".join(shown(store.id) for store in stores[:_NAMED]) or "none yet"
    more = f" and {len(stores) - _NAMED} more" if len(stores) > _NAMED else ""
    raise CommandError(f"There is no store {shown(id)}. The stores are: {there}{more}.")
