"""The processes of Plaudit under test, which the suite kills, stops and starts again as a supervisor would."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.support.service import Servers, Service
from tests.support.waiting import eventually, free_port

TOPICS = (
    *("store-updates", "object-updates", "review-submissions", "order-events", "moderation-commands"),
    *("review-feedback", "reminder-commands", "return-commands", "moderation-verdicts"),
    *("image-uploads", "image-commands"),
)
"""In the order of the flow; what is passed on goes by `review-changes` in the end."""

STOP_S = 30.0

ENVIRONMENT = {
    "PLAUDIT_PRODUCTION": "true",
    "PYTHONFAULTHANDLER": "1",
    "PLAUDIT_KAFKA__REPLICATION_FACTOR": "3",
    "PLAUDIT_SCHEDULER__LEASE": "3",
    "PLAUDIT_LOG__LEVEL": "info",
    "PLAUDIT_LOG__FORMAT": "json",
}


class EndedByItselfError(Exception):
    """A process ended though nobody had asked it to."""


@dataclass
class Fleet:
    """Facades, workers and schedulers by name: `api-1`, `worker-1`, `scheduler-1` and so on."""

    service: Service
    ports: dict[str, int] = field(default_factory=dict)
    metrics: dict[str, int] = field(default_factory=dict)
    """Ports at which processes tell their metrics."""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def facades(self) -> list[str]:
        """The addresses of all facades, whether they live or not."""
        return [f"http://127.0.0.1:{port}" for port in self.ports.values()]

    def names(self, kind: str) -> list[str]:
        """The living processes of a kind."""
        return [name for name in self.processes if name.startswith(kind)]

    def start(self, name: str) -> None:
        """Start a process."""
        command = name.partition("-")[0]
        if command == "api":
            self.ports.setdefault(name, free_port())
        self.metrics[name] = free_port()
        environment = self.service.command_environment() | {
            "PLAUDIT_HTTP__PORT": str(self.ports.get(name, 0)),
            "PLAUDIT_METRICS__PORT": str(self.metrics[name]),
        }
        with (self.service.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "plaudit", command],
                env=environment,
                cwd=self.service.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def kill(self, name: str) -> None:
        """Kill a process, and forget it."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process."""
        self.processes[name].send_signal(number)

    async def stop(self, name: str) -> None:
        """Stop a process in order, in three times the promised time; one that takes longer says where it is."""
        process = self.processes.pop(name)
        process.terminate()
        try:
            code = await asyncio.to_thread(process.wait, STOP_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            await asyncio.to_thread(process.wait)
            raise EndedByItselfError(f"{name} did not stop within {STOP_S:.0f} s: {self.log(name)}") from None
        # A process that is still starting has nothing in hand, and ends by the signal.
        if code not in (0, -signal.SIGTERM) or (code and "ready" in self.log(name)):
            raise EndedByItselfError(f"{name} stopped with exit code {code}: {self.log(name)}")

    def check(self) -> None:
        """Raises EndedByItselfError if a process has ended that should live."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise EndedByItselfError(f"{name} ended with exit code {process.returncode}: {self.log(name)}")

    def log(self, name: str) -> str:
        """The end of a log."""
        return (self.service.folder / f"{name}.log").read_text(errors="replace")[-3_000:]

    async def until_ready(self) -> None:
        """Wait until every facade serves, and the first workers consume."""
        async with httpx.AsyncClient(timeout=10) as client:

            async def ready() -> bool:
                self.check()
                try:
                    answers = [await client.get(f"{facade}/health/ready") for facade in self.facades]
                except httpx.TransportError:
                    return False
                logs = [self.log(name) for name in self.names("worker")]
                is_open = all(answer.json()[of] == "pass" for answer in answers for of in ("reads", "commands"))
                return is_open and all("worker ready" in log for log in logs)

            await eventually(ready, deadline_s=300)


@asynccontextmanager
async def running_fleet(servers: Servers, folder: Path, names: Sequence[str]) -> AsyncIterator[Fleet]:
    """These processes, ready; whatever lives in the end is killed."""
    fleet = Fleet(Service(servers, folder, environment=dict(ENVIRONMENT)))
    try:
        for name in names:
            fleet.start(name)
        await fleet.until_ready()
        yield fleet
    finally:
        for name in list(fleet.processes):
            fleet.kill(name)
