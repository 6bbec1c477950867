"""Child processes that never outlive this one."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import IO

from devservers.errors import EmbeddedServerError
from devservers.private import UMASK
from devservers.waiting import until

_LEASH = Path(__file__).with_name("leash.py")

# The kernel kills a leashed child when the thread that forked it ends, so one thread forks them all,
# and lives as long as the process.
_forker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedded-servers")


class Child:
    """A running command in its own session, killed by the kernel when this process dies.

    Not bound to an event loop: one loop may start it and another may stop it.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        output: IO[bytes],
        *,
        folder: Path | None = None,
        keep_open: Sequence[int] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Start the command in `folder`; its output goes to the file `output`.

        It inherits the descriptors `keep_open`, and our environment with the variables of `environment`.
        """
        leash = [sys.executable, "-I", "-S", str(_LEASH), str(os.getpid())]
        self._popen = _forker.submit(
            subprocess.Popen[bytes],
            [*leash, *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C.UTF-8", **environment},  # else Java can't open paths that aren't ASCII
            pass_fds=tuple(keep_open),
            umask=UMASK,
            start_new_session=True,  # Ctrl-C must reach only us: we stop the children in order
        ).result()

    @property
    def pid(self) -> int:
        """The process id, the same for the leash and the command."""
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        return self._popen.poll()

    async def has_ended(self) -> bool:
        """True once the command has ended."""
        return self.exit_code is not None

    async def stop(self, grace_s: float) -> None:
        """Terminate it (SIGTERM), and kill it after `grace_s` seconds or when cancelled."""
        if self.exit_code is not None:
            return
        try:
            self._popen.terminate()
            async with asyncio.timeout(grace_s):
                await until(self.has_ended)
        except TimeoutError:
            pass  # killed below
        finally:
            self.kill()

    def kill(self) -> int:
        """Kill it (SIGKILL) with its process group, unless it has ended; return its exit code."""
        if self.exit_code is None:
            os.killpg(self.pid, signal.SIGKILL)
        return self._popen.wait()


class Restartable:
    """A process that can be started again when its child has ended."""

    name: str
    log: Path
    """The file with its output."""
    stop_grace_s: float
    """Seconds that it has to stop."""
    _child: Child | None = None
    """The child of the last start."""

    @property
    def running(self) -> bool:
        """True while the process lives, ready or not."""
        return self._child is not None and self._child.exit_code is None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the last run; None while it runs."""
        return self._child.exit_code if self._child else None

    async def stop(self) -> None:
        """Stop it gracefully; kill it after `stop_grace_s`."""
        if self._child is not None:
            await self._child.stop(self.stop_grace_s)


async def run(
    command: Sequence[str | Path], *, timeout_s: float, folder: Path | None = None, keep_open: Sequence[int] = ()
) -> tuple[int, str]:
    """Run a command to its end, and return its exit code and all its output.

    Never leaves it running. Raises EmbeddedServerError after `timeout_s` seconds.
    """
    with tempfile.TemporaryFile() as output:
        child = Child(command, output, folder=folder, keep_open=keep_open)
        try:
            async with asyncio.timeout(timeout_s):
                await until(child.has_ended)
        except TimeoutError:
            message = f"{command[0]} hasn't finished within {timeout_s:.0f} s. Try again when the machine is less busy."
            raise EmbeddedServerError(message) from None
        finally:
            exit_code = child.kill()
        output.seek(0)
        return exit_code, output.read().decode(errors="replace").strip()
