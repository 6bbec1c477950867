"""Supervises the processes and servers of `plaudit up`: they are restarted when they end by themselves."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final, NoReturn, TypeVar

import structlog

from devservers.child import Child, Restartable
from devservers.errors import EmbeddedServerError
from devservers.private import new_log
from devservers.server import ServerProcess
from messaging.topics import TopicNotMadeError
from storage.pymongo_internals import cancel_and_wait

T = TypeVar("T")

log = structlog.get_logger()

STOP_GRACE_S: Final = 9.0
"""Seconds that a process has to stop."""

_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 10.0
_SHORT_RUN_S: Final = 30.0


class ServiceProcess(Restartable):
    """A process of the service as a child process."""

    stop_grace_s = STOP_GRACE_S

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str], keep_open: Sequence[int] = ()) -> None:
        self.name = name
        self._keep_open = keep_open
        self._environment = environment
        self.log = folder / f"{name}.log"

    async def start(self) -> None:
        """Start it, with a new log for its output; that of the last run is kept."""
        with new_log(self.log) as output:
            command = [sys.executable, "-m", "plaudit", self.name]
            self._child = Child(command, output, keep_open=self._keep_open, environment=self._environment)


async def run_with(servers: Sequence[ServerProcess], work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which may wait for these servers for as long as it takes.

    Raises EmbeddedServerError if one of them ends first; `work` is cancelled then.
    """
    running, watching = asyncio.create_task(work), asyncio.create_task(_watch(servers))
    try:
        await asyncio.wait([running, watching], return_when=asyncio.FIRST_COMPLETED)
        return running.result() if running.done() else watching.result()
    finally:
        await cancel_and_wait(running, watching, again_s=STOP_GRACE_S)


async def _watch(servers: Sequence[ServerProcess]) -> NoReturn:
    while True:
        for server in servers:
            if (exit_code := server.exit_code) is not None:
                raise EmbeddedServerError(server.obituary(exit_code))
        await asyncio.sleep(_PAUSE_S)


async def keep_running(
    servers: Sequence[ServerProcess],
    processes: Sequence[ServiceProcess],
    restore: Callable[[ServerProcess], Coroutine[Any, Any, None]],
) -> None:
    """Restart servers and processes that end by themselves, until cancelled.

    `restore` creates again what a restarted server has lost.
    """

    async def start(server: ServerProcess) -> None:
        await server.start()
        await run_with([server], restore(server))

    async with asyncio.TaskGroup() as group:
        for server in servers:
            group.create_task(_keep_running("server", server, partial(start, server)))
        for process in processes:
            group.create_task(_keep_running("process", process, process.start))


async def _keep_running(kind: str, each: Restartable, start: Callable[[], Awaitable[None]]) -> None:
    """Restart it whenever it ends, without a limit: it ran once, so the cause is expected to pass.

    At once, but after growing pauses if it keeps ending soon.
    """
    pause, began = 0.0, float("-inf")
    while True:
        if not each.running:
            pause = min(max(2 * pause, _PAUSE_S), _LONGEST_PAUSE_S) if monotonic() - began < _SHORT_RUN_S else 0.0
            facts = {kind: each.name, "exit_code": each.exit_code, "log": f"{each.log}.1"}
            log.error(f"{kind} ended; restarting it", **facts, pause_s=pause)
            await asyncio.sleep(pause)
            await _start_patiently(kind, each.name, start)
            began = monotonic()
        await asyncio.sleep(_PAUSE_S)


async def _start_patiently(kind: str, name: str, start: Callable[[], Awaitable[None]]) -> None:
    pause = _PAUSE_S
    while True:
        try:
            await start()
        except (EmbeddedServerError, OSError, TopicNotMadeError) as error:
            reason = str(error).partition("\n")[0]
            log.error(f"{kind} failed to start; retrying until Ctrl-C", **{kind: name}, pause_s=pause, reason=reason)
        else:
            log.warning(f"{kind} is running again", **{kind: name})
            return
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)
