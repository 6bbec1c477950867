"""Kafka and MongoDB in containers, with the images and settings of docker-compose.yml."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import docker
import pytest
from docker.errors import DockerException
from pymongo import AsyncMongoClient
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HealthcheckWaitStrategy

from tests.support.service import Json, Servers
from tests.support.waiting import eventually, free_port
from tests.support.yaml_text import yaml_in

START_S: Final = 120
COMPOSE: Final = Path(__file__).parents[2] / "docker-compose.yml"


def require_engine() -> None:
    """Raise UsageError with advice if no Docker engine responds."""
    try:
        docker.from_env().ping()
    except DockerException as error:
        message = f"--servers=containers needs a Docker engine. Start one, or set DOCKER_HOST to its address ({error})."
        raise pytest.UsageError(message) from None


@asynccontextmanager
async def containers() -> AsyncIterator[Servers]:
    """Both servers, ready; removed after the block."""
    services = yaml_in(COMPOSE.read_text())["services"]
    with ExitStack() as stack:
        kafka_port, mongo_port = free_port(), free_port()
        kafka = _kafka(services["kafka"], kafka_port)
        mongo = _mongo(services["mongo"], mongo_port)
        await asyncio.to_thread(lambda: [stack.enter_context(container) for container in (mongo, kafka)])
        yield Servers(f"localhost:{kafka_port}", await _replica_set(mongo_port), is_tansu=False)


def _kafka(service: dict[str, Any], port: int) -> DockerContainer:
    environment = {
        name: value.replace("${KAFKA_PORT:-29092}", str(port)) for name, value in service["environment"].items()
    }
    check = {"test": service["healthcheck"]["test"], "interval": 1_000_000_000, "retries": START_S}
    # Without other services on its network, the broker itself must have the host name in the settings.
    kafka = DockerContainer(service["image"], env=environment, hostname="kafka", healthcheck=check)
    strategy = HealthcheckWaitStrategy().with_startup_timeout(START_S)
    return kafka.with_bind_ports(29_092, port).waiting_for(strategy)


def _mongo(service: dict[str, Any], port: int) -> DockerContainer:
    # The same port inside and outside: clients connect to the address in the replica set's configuration.
    command = [*service["command"], "--port", str(port)]
    return DockerContainer(service["image"]).with_command(command).with_bind_ports(port, port)


async def _replica_set(port: int) -> str:
    """Initiate the replica set and wait for its primary. Returns the URI for clients."""
    member = f"localhost:{port}"
    async with AsyncMongoClient[Json](
        f"mongodb://{member}", directConnection=True, serverSelectionTimeoutMS=START_S * 1_000
    ) as client:
        await client.admin.command("replSetInitiate", {"_id": "plaudit", "members": [{"_id": 0, "host": member}]})

        async def is_primary() -> bool:
            return bool((await client.admin.command("hello"))["isWritablePrimary"])

        await eventually(is_primary)
    return f"mongodb://{member}/?replicaSet=plaudit"
