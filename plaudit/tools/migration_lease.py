"""`plaudit migrate` and `plaudit topics grow` change what is under a running service: one of them at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from rich.console import Console

from storage.database import Database
from storage.leases import LeaseRepository, new_holder

_LEASE: Final = "migration"
_LEASE_S: Final = 60.0
_WAIT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Turn:
    """The lease by which one runs at a time, held until it isn't renewed for a minute."""

    leases: LeaseRepository
    holder: str
    progress: Console

    async def hold(self) -> bool:
        """Take or renew it, once no other one has it. False: it wasn't ours, and another one may have gone on."""
        is_told = False
        while (held := await self.leases.take(_LEASE, self.holder, _LEASE_S)) is None:
            if not is_told:
                self.progress.print("Waiting for another `migrate` or `topics grow`, or a minute after it was killed")
                is_told = True
            await asyncio.sleep(_WAIT_S)
        return not held.is_new

    async def is_still_mine(self) -> bool:
        """Renew it, and tell if it was ours all the time."""
        held = await self.leases.take(_LEASE, self.holder, _LEASE_S)
        return held is not None and not held.is_new


@asynccontextmanager
async def turn(database: Database, progress: Console) -> AsyncIterator[Turn]:
    """Wait for the turn, and let go of it at the end. Whoever has it renews it by `hold`."""
    mine = Turn(LeaseRepository(database), new_holder(), progress)
    await mine.hold()
    try:
        yield mine
    finally:
        await mine.leases.release(_LEASE, mine.holder)
