"""The Plaudit processes under test, which the suite kills, stops and restarts as a supervisor would."""

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx

from tests.chaos.versions import Version, this_version
from tests.support.service import Servers, Service
from tests.support.targeting import VARIABLE
from tests.support.waiting import eventually, free_port

STOP_S = 30.0
"""Seconds that a stop may take: three times what is promised."""
READY_S = 300.0
"""Seconds until a started process must be ready."""
BY_FORCE = "not stopped in time; exiting by force"
"""Log text of a process that a stop ended by force."""
COMMAND_S = 180.0
"""Seconds that a command may take."""

ENVIRONMENT = {
    "PLAUDIT_PRODUCTION": "true",
    "PYTHONFAULTHANDLER": "1",
    "PLAUDIT_KAFKA__REPLICATION_FACTOR": "3",
    "PLAUDIT_SCHEDULER__LEASE": "3",
    "PLAUDIT_LOG__LEVEL": "info",
    "PLAUDIT_LOG__FORMAT": "json",
}


class EndedByItselfError(Exception):
    """A process ended, or didn't stop, against the suite's will."""


@dataclass
class Fleet:
    """Facades, workers and schedulers by name: `api-1`, `worker-1`, `scheduler-1` and so on."""

    service: Service
    ports: dict[str, int] = field(default_factory=dict)
    metrics: dict[str, int] = field(default_factory=dict)
    """Port of each process's metrics."""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    log_starts: dict[str, int] = field(default_factory=dict)
    """Position in each process's log at its last start."""
    this: Version = field(default_factory=this_version)
    before: Version | None = None
    """The version that processes start with and roll back to; None if all run this version."""
    versions: dict[str, Version] = field(default_factory=dict)
    """Version of each process that doesn't run this one."""

    @property
    def facades(self) -> list[str]:
        """Addresses of all facades, running or not."""
        return [f"http://127.0.0.1:{port}" for port in self.ports.values()]

    def names(self, kind: str) -> list[str]:
        """Names of the running processes of a kind."""
        return [name for name in self.processes if name.startswith(kind)]

    def start(self, name: str) -> None:
        """Start a process with the version it had or was assigned."""
        command = name.partition("-")[0]
        if command == "api":
            self.ports.setdefault(name, free_port())
        self.metrics[name] = free_port()
        version = self.version(name)
        environment = self.environment(version) | {
            "PLAUDIT_HTTP__PORT": str(self.ports.get(name, 0)),
            "PLAUDIT_METRICS__PORT": str(self.metrics[name]),
        }
        with (self.service.folder / f"{name}.log").open("ab") as log:
            self.log_starts[name] = log.tell()
            self.processes[name] = subprocess.Popen(
                version.command(command),
                env=environment,
                cwd=self.service.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def untargeted(self) -> Path:
        """File to which processes of this version write MongoDB commands that a sharded cluster would send to every
        shard."""
        return self.service.folder / "untargeted"

    def environment(self, version: Version) -> dict[str, str]:
        """Environment variables of a process of a version."""
        variables = self.service.command_environment() | version.environment
        variables.pop(VARIABLE, None)
        return variables | ({VARIABLE: str(self.untargeted)} if version == self.this else {})

    def version(self, name: str) -> Version:
        """The version that a process runs, or will run after its next start."""
        return self.versions.get(name, self.this)

    @property
    def is_this_version(self) -> bool:
        """True if no process runs the version before."""
        return all(self.version(name) == self.this for name in self.processes)

    def kill(self, name: str) -> None:
        """Kill a process and remove it from the fleet."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process."""
        self.processes[name].send_signal(number)

    async def stop(self, name: str, *, in_time: bool = True) -> None:
        """Stop a process gracefully within `STOP_S`. Raises EndedByItselfError if it takes longer or fails.

        Without `in_time` it may end by force, as happens on a busy machine: its unfinished records are redelivered.
        """
        process = self.processes.pop(name)
        process.terminate()
        try:
            code = await asyncio.to_thread(process.wait, STOP_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            await asyncio.to_thread(process.wait)
            raise EndedByItselfError(f"{name} did not stop within {STOP_S:.0f} s: {self.log(name)}") from None
        if not in_time and BY_FORCE in self.output(name):
            return
        # A process that is still starting has no work in progress, and may end by the signal.
        if code not in (0, -signal.SIGTERM) or (code and "ready" in self.log(name)):
            raise EndedByItselfError(f"{name} stopped with exit code {code}: {self.log(name)}")

    def check(self) -> None:
        """Raise EndedByItselfError if a process has ended that should be running."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise EndedByItselfError(f"{name} ended with exit code {process.returncode}: {self.log(name)}")

    def log(self, name: str) -> str:
        """The last 3,000 characters of the log since the last start."""
        return self.output(name)[-3_000:]

    def output(self, name: str) -> str:
        """The whole log since the last start."""
        with (self.service.folder / f"{name}.log").open("rb") as log:
            log.seek(self.log_starts.get(name, 0))
            return log.read().decode(errors="replace")

    async def run(self, version: Version, *arguments: str) -> str:
        """Run a command of a version to its end. Returns its output; raises EndedByItselfError if it fails or hangs."""
        process = await asyncio.create_subprocess_exec(
            *version.command(*arguments),
            env=self.environment(version),
            cwd=self.service.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), COMMAND_S)
        except TimeoutError:
            process.kill()
            raise EndedByItselfError(f"`plaudit {arguments[0]}` hangs") from None
        text = output.decode(errors="replace")
        if process.returncode != 0 or version.place not in text:
            raise EndedByItselfError(f"`plaudit {arguments[0]}` ended with {process.returncode}: {text[-3_000:]}")
        return text

    async def until_ready(self, *names: str) -> None:
        """Wait until these processes (default: all) are ready, each running the code of its version."""
        async with httpx.AsyncClient(timeout=10) as client:

            async def ready(name: str) -> bool:
                self.check()
                port = self.ports.get(name, self.metrics[name])
                try:
                    answer = await client.get(f"http://127.0.0.1:{port}/health/ready")
                except httpx.TransportError:
                    return False
                health = answer.json()
                return all(health.get(part, health["status"]) == "pass" for part in ("reads", "commands"))

            for name in names or tuple(self.processes):
                await eventually(partial(ready, name), deadline_s=READY_S)
                place = self.output(name).partition("\n")[0]
                assert place == self.version(name).place, f"{name} runs {place}"


@asynccontextmanager
async def running_fleet(
    servers: Servers, folder: Path, names: Sequence[str], before: Version | None = None
) -> AsyncIterator[Fleet]:
    """A ready fleet of these processes, of the version before if there is one. All are killed at the end."""
    fleet = Fleet(Service(servers, folder, environment=dict(ENVIRONMENT)), before=before)
    try:
        for name in names:
            if before is not None:
                fleet.versions[name] = before
            fleet.start(name)
        await fleet.until_ready()
        yield fleet
    finally:
        for name in list(fleet.processes):
            fleet.kill(name)
