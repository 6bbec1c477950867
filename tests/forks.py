"""Processes that start fast: forked from one that has everything imported, which takes most of a second each time.

What runs in them is what `python -m plaudit` runs, and they are killed and stopped like any other.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FORKS: Final = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        *("__main__", "plaudit.cli", "tests.reminder_processes"),
        *(f"plaudit.{name}_process" for name in ("api", "worker", "scheduler", "mailer")),
    ]
)


class ForkedCommand:
    """A `plaudit` command under way, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, command: str, *, environment: Mapping[str, str], folder: Path, log: Path) -> None:
        log.touch()
        # A daemon: it ends with the tests, whatever becomes of them.
        self._process = FORKS.Process(target=_run, args=(command, dict(environment), folder, log), daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Returns the exit code; raises TimeoutExpired."""
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(str(self._process), timeout or 0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _run(command: str, environment: Mapping[str, str], folder: Path, log: Path) -> None:
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["plaudit", command]
    from plaudit.cli import main  # where it is imported already: in the forked process

    main()
