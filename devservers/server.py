"""The base of the embedded servers: a folder, a port, a log, and one process at a time."""

import asyncio
import os
import shlex
import shutil
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from devservers.child import Child, Restartable
from devservers.errors import EmbeddedServerError
from devservers.lock import FolderLock
from devservers.ports import HOST, ReservedPort
from devservers.private import load_secret, new_log, private_folder
from devservers.waiting import until

_LAST_LINES = 12
_LONGEST_LINE = 400
_LEAST_FREE = 200 * 2**20
# A server that was just killed takes at most this long to release its memory and its folder, on a busy machine.
_FOLDER_PATIENCE_S = 15.0
_MOST_DOUBLINGS = 6


class ServerProcess(Restartable, ABC):
    """A server on its own data folder, on a local port that it keeps through every restart.

    As a context manager it claims folder and port, starts, and at the end stops and releases both. In between, `stop`
    or `kill` and then `start` restart it on the same port with the same data: both stay claimed.
    """

    start_timeout_s: float

    def __init__(self, folder: Path, log: Path, *, with_password: bool = False) -> None:
        """`folder` is for this server only. Its port is that of the last run if it is free, else any.

        Without a password every user of the machine has access.
        """
        self.folder = folder.absolute()
        self.log = log.absolute()
        self.password: str | None = None
        """The password of its only user, once it has been started with one."""
        self._with_password = with_password
        self._lock: FolderLock | None = None
        self._port: ReservedPort | None = None
        self._late_starts = 0

    @property
    def port(self) -> int:
        """The port for clients, once claimed."""
        if self._port is None:
            raise RuntimeError(f"{self.name} has no port before it is claimed")
        return self._port.number

    @property
    def address(self) -> str:
        """Host and port for clients, once claimed."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The server's process id; None while it is down."""
        return self._child.pid if self.running and self._child else None

    async def claim(self) -> None:
        """Claim folder and port without starting: members of a cluster must know each other's ports first."""
        if self._lock is not None:
            return
        private_folder(self.folder)
        self._lock = FolderLock(self.folder / "lock")
        try:
            await self._lock.acquire(_FOLDER_PATIENCE_S)
            self._reserve_ports()
        except BaseException:
            self.release()
            raise

    def _reserve_ports(self) -> None:
        self._port = ReservedPort.as_before(self.folder / "port")

    def release(self) -> None:
        """Release folder and port."""
        if self._port is not None:
            self._port.release()
            self._port = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    async def start(self) -> None:
        """Start it, and return when it serves clients. Raises EmbeddedServerError with the end of its log otherwise.

        It has `start_timeout_s`, and twice as long after each start that wasn't ready in time, up to 64 times: a server
        that recovers its data after a crash begins again whenever it is killed, and might never be ready otherwise.
        """
        if self.running:
            return
        try:
            await self._start()
        except OSError as error:  # a full disk, too many processes, a file in the place of a folder
            raise EmbeddedServerError(
                f"{self.name} can't be started: {error}. Correct that, and start again."
            ) from error

    async def _start(self) -> None:
        await self.claim()
        await self._prepare()
        timeout_s = self.start_timeout_s * 2 ** min(self._late_starts, _MOST_DOUBLINGS)
        try:
            with new_log(self.log) as output:
                self._child = Child(self._command(), output, folder=self.folder, keep_open=self._inherited())
            async with asyncio.timeout(timeout_s):
                await until(self._serves_or_raises)
            self._late_starts = 0
        except TimeoutError:
            self._late_starts += 1
            self.kill()
            message = f"{self.name} isn't ready after {timeout_s:.0f} s. {end_of_log(self.log)}"
            raise EmbeddedServerError(message) from None
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """Kill it (SIGKILL), like a crash."""
        if self._child is not None:
            self._child.kill()

    async def __aenter__(self) -> Self:
        """Claim and start."""
        try:
            await self.start()
        except BaseException:
            self.release()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and release folder and port."""
        try:
            await self.stop()
        finally:
            self.release()

    @abstractmethod
    def _command(self) -> Sequence[str | Path]:
        """The command to run in the server's folder."""

    async def _serves(self) -> bool:
        """True if clients are served; returns soon either way."""
        return await accepts_connections(self.port)

    async def _prepare(self) -> None:
        """Write the files that must exist before the start."""
        if self._with_password:
            self.password = load_secret(self.folder / "password")

    def _inherited(self) -> Sequence[int]:
        return (self._lock.descriptor,) if self._lock is not None else ()

    async def _serves_or_raises(self) -> bool:
        if self._child is not None and (exit_code := self._child.exit_code) is not None:
            raise EmbeddedServerError(self.obituary(exit_code))
        return await self._serves()

    def obituary(self, exit_code: int) -> str:
        """The reason for the end of the last run, as far as its exit code, its log, the disk and its files show it."""
        lines = [f"{self.name} exited (exit code {exit_code}). {end_of_log(self.log)}"]
        free = shutil.disk_usage(self.folder).free
        if free < _LEAST_FREE:  # on a full disk the reason may be missing from the log
            lines.append(f"Only {free // 2**20} MB are free in {self.folder}: free some disk space.")
        locked = next((file for file in self.folder.rglob("*") if not os.access(file, os.R_OK | os.W_OK)), None)
        if locked is not None:
            what = f"{locked} isn't yours to read and write, as after a start with `sudo`"
            remedy = f"sudo chown -R $USER {shlex.quote(str(self.folder.parent))}"
            lines.append(f"{what}. `{remedy}` corrects that; or choose another folder.")
        return "\n".join(lines)


def end_of_log(log: Path) -> str:
    """The last lines of a log, for a message; very long ones are cut."""
    with log.open(errors="replace") as lines:
        last = [line.rstrip()[:_LONGEST_LINE] for line in deque(lines, _LAST_LINES)]
    return "\n".join([f"The last lines of {log}:", *last]) if last else f"{log} is empty."


async def accepts_connections(port: int) -> bool:
    """True if a process listens on a local port."""
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    writer.close()
    return True
