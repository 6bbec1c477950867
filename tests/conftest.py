"""Real servers for tests that need them: embedded by default, in containers, or those in the environment."""

import gc
import os
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, settings

from devservers.broker import Broker
from tests.support.facade import Facade, facade_of, new_id
from tests.support.orders import Returns
from tests.support.reminders import Shop, connected_job
from tests.support.service import Servers, Service, running_service
from tests.support.shared_servers import shared_servers
from tests.support.targeting import VARIABLE, found_in, listen

pytest_plugins = ("tests.support.s3",)

# Slowness of a busy machine is no defect. The option --hypothesis-profile is applied later and overrides this.
settings.register_profile("unhurried", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--broker", choices=[*Broker], default=Broker.AUTO, help="broker to embed")
    parser.addoption(
        "--servers", choices=["embedded", "containers"], default="embedded", help="embedded servers or containers"
    )
    parser.addoption("--stack", default="", help="Compose client that starts docker-compose.yml, for tests/stack")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--servers") == "containers":
        from tests.support.containers import require_engine  # imported late, so that other runs start faster

        require_engine()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without garbage collection, then freeze the collected tests.

    Thousands of tests live to the end; scanning them repeatedly takes a third of the collection time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session")
async def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Servers]:
    if request.config.getoption("--servers") == "containers":
        from tests.support.containers import containers

        async with containers() as servers:
            yield servers
        return
    kafka, mongo = (os.environ.get(f"PLAUDIT_{name}") for name in ("KAFKA__BOOTSTRAP_SERVERS", "MONGO__URI"))
    if kafka and mongo:
        yield Servers(kafka, mongo, is_tansu=False)
        return
    own = tmp_path_factory.getbasetemp()
    run = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    async with shared_servers(run / "servers", Broker(request.config.getoption("--broker"))) as shared:
        yield shared


@pytest.fixture(autouse=True)
def skip_without_kafka(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("kafka") and request.getfixturevalue("servers").is_tansu:
        pytest.skip("needs guarantees of Apache Kafka that the fallback broker lacks")


@pytest.fixture(scope="session", autouse=True)
def untargeted_commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file to which the processes of all tests write MongoDB commands that a cluster would send to every shard."""
    file = tmp_path_factory.getbasetemp() / "untargeted"
    os.environ[VARIABLE] = str(file)
    listen()
    return file


@pytest.fixture(autouse=True)
def check_shard_targeting(untargeted_commands: Path) -> Iterator[None]:
    """Fail if a process has sent a command without a shard key that isn't allowed."""
    yield
    found = found_in(untargeted_commands)
    untargeted_commands.unlink(missing_ok=True)
    assert not found, "\n".join(map(str, found))


@pytest.fixture(scope="session")
async def service(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """One service shared by tests that use objects and stores of their own."""
    async with running_service(servers, tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture
async def own_service(servers: Servers, tmp_path: Path) -> AsyncIterator[Service]:
    """A service for a test that stops parts of it or reads all its data."""
    async with running_service(servers, tmp_path) as service:
        yield service


@pytest.fixture
async def stopped_service(servers: Servers, tmp_path: Path) -> Service:
    """A service of which no process runs, with topics and indexes."""
    service = Service(servers, tmp_path)
    await service.run("init")
    return service


@pytest.fixture
async def own_facade(own_service: Service) -> AsyncIterator[Facade]:
    async with facade_of(own_service) as facade:
        yield facade


@pytest.fixture
async def own_returns(own_service: Service, own_facade: Facade) -> Returns:
    return Returns(own_service, own_facade.http)


@pytest.fixture
def product() -> str:
    """The id of an object that no other test uses."""
    return new_id()


@pytest.fixture(scope="module")
async def http(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the service, or of the one that a file has instead, like the two below."""
    async with service.client() as client:
        yield client


@pytest.fixture(scope="module")
async def facade(http: httpx.AsyncClient) -> Facade:
    return Facade(http)


@pytest.fixture(scope="module")
async def returns(service: Service, http: httpx.AsyncClient) -> Returns:
    return Returns(service, http)


@pytest.fixture(scope="module")
async def reminders(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shop]:
    """A service without an API, and the reminder job."""
    service = Service(servers, tmp_path_factory.mktemp("reminders"))
    async with service.running(api=False), connected_job(service) as (database, job):
        yield Shop(service, database, job)


@pytest.fixture
async def shop(reminders: Shop) -> Shop:
    """A store in it that accepts reviews."""
    shop = Shop(reminders.service, reminders.database, reminders.job)
    await shop.open()
    return shop
