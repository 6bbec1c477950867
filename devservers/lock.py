"""A folder belongs to one process at a time."""

import asyncio
import fcntl
import os
import time
from pathlib import Path

from devservers.errors import EmbeddedServerError, Report
from devservers.waiting import PAUSE_S, until


class FolderLock:
    """An flock on a file, which the kernel lets go when the last process that inherited it has ended."""

    def __init__(self, file: Path) -> None:
        """Open the lock's file, in a folder that is made; nothing is locked yet."""
        self._file = file
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            message = f"{file.parent} can't be written ({error.strerror}). Make it writable, or choose another folder."
            raise EmbeddedServerError(message) from error

    @property
    def descriptor(self) -> int:
        """For a child to inherit, so that the folder stays locked until the child has gone too."""
        return self._descriptor

    async def _taken(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        return True

    async def take(self, patience_s: float) -> None:
        """Lock, or raise EmbeddedServerError when another process has it.

        An owner that has just been killed is given `patience_s` seconds until its servers are gone too.
        """
        deadline = time.monotonic() + patience_s
        while not await self._taken():
            owner = self._owner()
            if owner is not None or time.monotonic() > deadline:
                who = f"process {owner}" if owner is not None else "or its servers, process unknown"
                raise EmbeddedServerError(
                    f"{self._file.parent} is in use by another Plaudit ({who}). Stop that one, or choose another data "
                    "folder."
                )
            await asyncio.sleep(PAUSE_S)

    def _owner(self) -> int | None:
        """The process that wrote itself into the file, if it lives."""
        pid = self._file.read_text().strip()
        if not pid.isdecimal():  # it has taken the lock, and is about to write
            return None
        try:
            lives = Path("/proc", pid, "cmdline").read_bytes()  # empty when it has been killed, but not waited for
        except OSError:
            return None
        return int(pid) if lives else None

    async def take_in_turn(self, report: Report, waiting_for: str) -> None:
        """Lock, however long the other process takes; says once that it waits."""
        if await self._taken():
            return
        report(f"Waiting for another Plaudit that is {waiting_for}")
        await until(self._taken)

    def release(self) -> None:
        """Unlock and close."""
        os.close(self._descriptor)


def is_let_go(file: Path) -> bool:
    """True for the lock of a process that has ended; not where there never was one."""
    try:
        with file.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, BlockingIOError):
        return False
    return True
