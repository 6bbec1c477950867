"""Processes and servers of `plaudit up`: started again when they end by themselves."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import structlog

from devservers import EmbeddedServerError, KafkaServer, MongoServer, ServerProcess
from devservers.child import Child

log = structlog.get_logger()

STOP_GRACE_S: Final = 9.0
"""Seconds that a process may take to stop."""

_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 10.0


class ServiceProcess:
    """One process of the service as a child, started again when it ends by itself."""

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self._environment = environment
        self.log = folder / f"{name}.log"
        self._child: Child | None = None

    def start(self) -> None:
        """Start it; its output goes to its log."""
        with self.log.open("ab") as output:
            self._child = Child([sys.executable, "-m", "plaudit", self.name], output, environment=self._environment)

    @property
    def pid(self) -> int | None:
        """The process id, None while it doesn't run."""
        return self._child.pid if self._child and self._child.exit_code is None else None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the last run; None while it runs."""
        return self._child.exit_code if self._child else None

    async def stop(self) -> None:
        """Let it finish what is in hand."""
        if self._child is not None:
            await self._child.stop(STOP_GRACE_S)


async def keep_running(servers: Sequence[MongoServer | KafkaServer], processes: Sequence[ServiceProcess]) -> None:
    """Start again what ends by itself, until cancelled."""
    async with asyncio.TaskGroup() as group:
        for server in servers:
            group.create_task(_keep_server_running(server.process))
        group.create_task(_keep_processes_running(processes))


async def _keep_server_running(server: ServerProcess) -> None:
    """Start a server again when it ends, as often as it takes: it ran once, so what stops it now will pass."""
    while True:
        if not server.running:
            log.error("server ended; starting it again", server=server.name)
            await _start_patiently(server)
        await asyncio.sleep(_PAUSE_S)


async def _start_patiently(server: ServerProcess) -> None:
    pause = _PAUSE_S
    while True:
        try:
            await server.start()
        except EmbeddedServerError as error:
            reason = str(error).partition("\n")[0]
            log.error("server not started; trying again until Ctrl-C", server=server.name, pause_s=pause, reason=reason)
        else:
            log.warning("server runs again", server=server.name)
            return
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


async def _keep_processes_running(processes: Sequence[ServiceProcess]) -> None:
    while True:
        for process in processes:
            if process.exit_code is not None:
                log.error("process ended; starting it again", process=process.name, exit_code=process.exit_code)
                try:
                    process.start()
                except OSError as error:  # no more processes, or the log can't be opened: that will pass, too
                    log.error("process not started; trying again until Ctrl-C", process=process.name, reason=str(error))
        await asyncio.sleep(_PAUSE_S)
