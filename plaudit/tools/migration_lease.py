"""The lease by which one `plaudit migrate` or `plaudit topics grow` runs at a time, beside the running service."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from rich.console import Console

from plaudit.errors import CommandError
from plaudit.processes.waiting import patiently
from storage.database import Database
from storage.leases import LeaseRepository, new_holder
from storage.unit_of_work import is_unavailable

HELD_UP: Final = "This run was blocked for a minute, and another run may have taken over. Run it again."

_LEASE: Final = "migration"
_LEASE_S: Final = 60.0
_WAIT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class MigrationLease:
    """The lease of one run; it expires if it isn't renewed for a minute."""

    leases: LeaseRepository
    holder: str

    async def wait_for(self, progress: Console) -> None:
        """Take the lease, once no other run has it."""
        is_announced = False
        while await self.leases.take(_LEASE, self.holder, _LEASE_S) is None:
            if not is_announced:
                progress.print("Waiting for another `migrate` or `topics grow`; up to a minute if that was killed")
                is_announced = True
            await asyncio.sleep(_WAIT_S)

    async def is_still_mine(self) -> bool:
        """Renew the lease; True if it was held without interruption."""
        held = await self.leases.take(_LEASE, self.holder, _LEASE_S)
        return held is not None and not held.is_new

    async def keep(self) -> None:
        """Renew the lease. Raises CommandError: it was lost in between."""
        if not await self.is_still_mine():
            raise CommandError(HELD_UP)

    async def note(self, write: Callable[[], Awaitable[None]]) -> None:
        """Write the progress, once MongoDB is available. Raises CommandError: the lease was lost in between."""

        async def write_in_turn() -> None:
            await self.keep()
            await write()

        await patiently("MongoDB", write_in_turn)


@asynccontextmanager
async def migration_lease(database: Database, progress: Console) -> AsyncIterator[MigrationLease]:
    """Wait for the lease, and release it at the end. The caller renews it by `keep`."""
    mine = MigrationLease(LeaseRepository(database), new_holder())
    await mine.wait_for(progress)
    try:
        yield mine
    finally:
        try:
            await mine.leases.release(_LEASE, mine.holder)
        except Exception as error:
            # The lease expires by itself, and the error that ended the work matters more.
            if not is_unavailable(error):
                raise
