"""Processes that start fast, forked from one with all imports, which otherwise take most of a second each time.

They run the same code as `python -m plaudit`, and can be killed and stopped like any process.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from multiprocessing import connection
from pathlib import Path
from typing import Final

FORKS: Final = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        *("__main__", "plaudit.cli.main", "tests.support.reminder_processes", "tests.support.targeting"),
        *(f"plaudit.processes.{name}" for name in ("api", "worker", "scheduler", "mailer")),
    ]
)


_PROCESS_LOCK: Final = threading.Lock()
"""Serializes starts and polls: both reap children, and an exit code can be read only once."""


class ForkedCommand:
    """A running `plaudit` command with the part of `subprocess.Popen` that tests use.

    Standard output and standard error are appended to `log`, or standard error to `errors` if given.
    """

    def __init__(
        self, *command: str, environment: Mapping[str, str], folder: Path, log: Path, errors: Path | None = None
    ) -> None:
        outputs = log, errors or log
        for output in outputs:
            output.touch()
        # A daemon ends with the test process, however that ends.
        self._process = FORKS.Process(target=_run, args=(command, dict(environment), folder, outputs), daemon=True)
        with _PROCESS_LOCK:
            self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        with _PROCESS_LOCK:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Returns the exit code; raises TimeoutExpired."""
        connection.wait([self._process.sentinel], timeout)
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


def run_forked(
    *command: str, environment: Mapping[str, str], folder: Path, limit_s: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run a `plaudit` command to its end. Raises TimeoutExpired after `limit_s` seconds."""
    with tempfile.TemporaryDirectory() as logs:
        log, errors = Path(logs, "out"), Path(logs, "err")
        process = ForkedCommand(*command, environment=environment, folder=folder, log=log, errors=errors)
        try:
            code = process.wait(limit_s)
        finally:
            process.kill()
        return subprocess.CompletedProcess(command, code, log.read_text(), errors.read_text())


def _run(command: Sequence[str], environment: Mapping[str, str], folder: Path, outputs: tuple[Path, Path]) -> None:
    for descriptor, path in enumerate(outputs, start=1):
        output = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(output, descriptor)
        os.close(output)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["plaudit", *command]
    # As in a terminal: a shell's background jobs ignore SIGINT, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from plaudit.cli.main import main  # already imported in the forked process
    from tests.support.targeting import listen

    listen()
    main()
