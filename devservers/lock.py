"""A lock that gives a folder to one process at a time."""

import asyncio
import fcntl
import os
import time
from pathlib import Path

from devservers.errors import EmbeddedServerError, Report, unwritable
from devservers.waiting import PAUSE_S, until


class FolderLock:
    """An flock on a file; the kernel releases it when the last process that inherited it has ended."""

    def __init__(self, file: Path) -> None:
        """Open the lock file, and create its folder; nothing is locked yet. Raises EmbeddedServerError."""
        self._file = file
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise unwritable(file.parent, error) from error

    @property
    def descriptor(self) -> int:
        """For a child to inherit, so that the folder stays locked until the child has ended, too."""
        return self._descriptor

    async def _try_lock(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        return True

    async def acquire(self, patience_s: float) -> None:
        """Lock the folder. Raises EmbeddedServerError if another process has it.

        After an owner that was just killed, it waits at most `patience_s` seconds for the owner's servers to end.
        """
        deadline = time.monotonic() + patience_s
        while not await self._try_lock():
            owner = self._owner()
            if owner is not None or time.monotonic() > deadline:
                who = f"process {owner}" if owner is not None else "or its servers, unknown process"
                raise EmbeddedServerError(
                    f"{self._file.parent} is in use by another `plaudit up` ({who}). Stop that, or choose another "
                    "data folder."
                )
            await asyncio.sleep(PAUSE_S)

    def _owner(self) -> int | None:
        """The id of the process that wrote it into the file, if that runs."""
        pid = self._file.read_text().strip()
        if not pid.isdecimal():  # the owner has the lock, and is about to write
            return None
        try:
            command_line = Path("/proc", pid, "cmdline").read_bytes()  # empty for a zombie
        except OSError:
            return None
        return int(pid) if command_line else None

    async def acquire_patiently(self, report: Report) -> None:
        """Lock the folder, however long another process has it; reports once that it waits."""
        if await self._try_lock():
            return
        report("Waiting for another `plaudit up` that is preparing Kafka")
        await until(self._try_lock)

    def release(self) -> None:
        """Unlock and close."""
        os.close(self._descriptor)


def is_unlocked(file: Path) -> bool:
    """True if the lock file exists and no process holds its lock."""
    try:
        with file.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, BlockingIOError):
        return False
    return True
