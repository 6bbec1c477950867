"""The stack of docker-compose.yml, with its own project name and ports."""

import asyncio
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

from tests.support.service import Json
from tests.support.waiting import eventually, free_port

ROOT: Final = Path(__file__).parents[2]
PORTS: Final = ("PORT", "KAFKA_PORT", "MAIL_PORT", "PROMETHEUS_PORT", "GRAFANA_PORT")
SETTLED_S: Final = 600.0


@dataclass(frozen=True)
class Stack:
    """Containers are named by their service, or by service and number if it has several: `worker/2`."""

    compose: Sequence[str]
    """The Compose client: `docker compose` or `docker-compose`."""
    ports: dict[str, int] = field(default_factory=lambda: {name: free_port() for name in PORTS})
    project: str = field(default_factory=lambda: f"plaudit-trial-{uuid4().hex[:8]}")

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.ports['PORT']}"

    @property
    def mail(self) -> str:
        return f"http://127.0.0.1:{self.ports['MAIL_PORT']}"

    @property
    def prometheus(self) -> str:
        return f"http://127.0.0.1:{self.ports['PROMETHEUS_PORT']}"

    @property
    def kafka(self) -> str:
        return f"127.0.0.1:{self.ports['KAFKA_PORT']}"

    async def run(self, *arguments: str) -> str:
        """Run the Compose client to its end. Returns its output."""
        environment = {name: str(port) for name, port in self.ports.items()} | {"COMPOSE_PROJECT_NAME": self.project}
        return await _run([*self.compose, "--profile", "observability", *arguments], environment)

    async def engine(self, *arguments: str) -> str:
        """Run the Docker client to its end. Returns its output."""
        return await _run(["docker", *arguments])

    async def start(self, *options: str) -> None:
        """Start the containers that aren't running, and wait until all are healthy."""
        await self.run("up", "--detach", *options)
        await self.settle()

    async def stop(self, container: str, how: str) -> None:
        """Stop one container: `how` is `stop` (SIGTERM first) or `kill`."""
        await self.engine(how, await self.container(container))

    async def restart(self, container: str) -> None:
        """Start a stopped container, and wait until all are healthy."""
        await self.engine("start", await self.container(container))
        await self.settle()

    async def settle(self) -> None:
        """Wait until every container is healthy and the one-off has succeeded."""

        async def unhealthy() -> dict[str, str]:
            states = await self.states()
            return {name: state for name, state in states.items() if state not in ("healthy", "exited 0")}

        await eventually(unhealthy, lambda found: not found, deadline_s=SETTLED_S)

    async def states(self) -> dict[str, str]:
        """Health of each running container; status and exit code of others."""
        states = {}
        for container in await self.containers():
            state, labels = container["State"], container["Config"]["Labels"]
            name = f"{labels['com.docker.compose.service']}/{labels['com.docker.compose.container-number']}"
            ended = f"{state['Status']} {state['ExitCode']}"
            states[name] = state["Health"]["Status"] if state["Running"] else ended
        return states

    async def containers(self, service: str = "") -> list[Json]:
        """Details of all containers, or those of a service."""
        labels = {"project": self.project, "oneoff": "False"} | ({"service": service} if service else {})
        filters = [f"--filter=label=com.docker.compose.{name}={value}" for name, value in labels.items()]
        ids = (await self.engine("ps", "--all", "--quiet", *filters)).split()
        found: list[Json] = json.loads(await self.engine("inspect", *ids))
        return sorted(found, key=lambda container: str(container["Name"]))

    async def container(self, name: str) -> str:
        service, _, number = name.partition("/")
        return str((await self.containers(service))[int(number or 1) - 1]["Id"])

    async def inside(self, container: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a container."""
        return await asyncio.to_thread(_finished, ["docker", "exec", await self.container(container), *command])


async def _run(command: Sequence[str], environment: dict[str, str] | None = None) -> str:
    finished = await asyncio.to_thread(_finished, command, environment)
    assert finished.returncode == 0, f"{' '.join(command)}:\n{finished.stdout[-2_000:]}\n{finished.stderr[-2_000:]}"
    return finished.stdout


def _finished(command: Sequence[str], environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
