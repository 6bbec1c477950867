"""`plaudit up`: everything in one command, with embedded servers where no address is configured."""

import asyncio
import json
import os
import platform
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

import httpx
from pydantic import SecretStr

from devservers.broker import Broker, embedded_kafka
from devservers.errors import Report
from devservers.kafka import USER as KAFKA_USER
from devservers.lock import FolderLock
from devservers.mongo import MongoProcess, embedded_mongo
from devservers.private import UMASK, private_folder, write_private
from devservers.server import ServerProcess, end_of_log
from devservers.tansu import TansuProcess
from devservers.waiting import until
from messaging.envelope import Envelope
from messaging.topics import Topic
from plaudit.config import Settings
from plaudit.credentials import mongo_hosts
from plaudit.effective_configuration import unknown_variables
from plaudit.entity_types.registered import registered_entity_types
from plaudit.errors import CommandError, naming
from plaudit.processes.authentication import check_authentication
from plaudit.processes.connections import (
    check_addresses,
    connected,
    run_init,
    run_unless_stopped,
    watch_stop_signals,
    watch_terminal,
)
from plaudit.processes.listening import check_metrics_ports, port_to_listen_at
from plaudit.processes.mailer import mail_server, missing_sender
from plaudit.processes.supervision import STOP_GRACE_S, ServiceProcess, keep_running, run_with
from plaudit.processes.waiting import patiently
from plaudit.published_addresses import PublishedAddresses
from storage.database import Database
from storage.stores import StoreRepository

SAMPLE_STORE: Final = {
    "id": "Electronics",
    "name": "Electronics",
    "settings": {"reviewsEnabled": True, "anonymousReviewsAllowed": True, "purchaseRequired": False},
}
"""Registered in an empty database, so that the samples of the guides work as they are."""

FIRST_PROCESSES: Final = ("api", "worker")
"""Processes that the service needs to be ready; the others start afterwards, and don't delay these."""

_READY_TIMEOUT_S: Final = 180.0
_FOLDER_PATIENCE_S: Final = 15.0


async def run_up(settings: Settings, report: Report) -> None:
    """Start everything, report that it is ready, and keep it running until SIGTERM or SIGINT.

    Raises EmbeddedServerError, CommandError or ConfigurationError if something can't be started; nothing is left
    running then.
    """
    if platform.system() != "Linux":  # the children end with their parent by prctl, and locks are looked up in /proc
        raise CommandError(
            "`plaudit up` runs on Linux only. Start the containers instead: `docker compose up -d --build` in the "
            "checkout (docs/operations.md#containers)."
        )
    # Errors in these are better reported now than in the log of a process.
    check_authentication(settings)
    registered_entity_types(settings)
    settings.smtp.checked_sender()
    if settings.smtp.host:
        mail_server(settings)
    if unknown := unknown_variables(settings):
        report(f"Unknown variables: {', '.join(unknown)}. They have no effect; `plaudit config` shows all settings.")
    stop = watch_stop_signals()
    watch_terminal()
    os.umask(UMASK)  # for all processes: the folder holds credentials and the texts of customers
    # 0.1.0 had no lock, and left its folder open.
    private_folder(settings.data, report, known_by=[{settings.lock_file.name}, {"kafka", "logs", "mongo"}])
    async with AsyncExitStack() as stack:
        lock = FolderLock(settings.lock_file)
        stack.callback(lock.release)
        started = await run_unless_stopped(_start(settings, lock, stack, report), stop, again_s=STOP_GRACE_S)
        if started is None:
            return

        async def restore(server: ServerProcess) -> None:
            if isinstance(server, TansuProcess):
                report("Creating topics again: Tansu kept them and all records in memory only")
                await run_init(settings)

        await run_unless_stopped(keep_running(*started, restore), stop, again_s=STOP_GRACE_S)
        report("Stopping")


async def _start(
    settings: Settings, lock: FolderLock, stack: AsyncExitStack, report: Report
) -> tuple[list[ServerProcess], list[ServiceProcess]]:
    await lock.acquire(_FOLDER_PATIENCE_S)
    settings.endpoints_file.unlink(missing_ok=True)  # of a killed run: commands wait for that of this one
    settings.http.port = stack.enter_context(port_to_listen_at(settings.http))
    check_metrics_ports(settings.metrics, settings.http, _names_with_metrics(settings))
    await check_addresses(settings)
    servers = await _start_servers(settings, stack, report)
    return servers, await run_with(servers, _start_service(settings, lock, stack, servers, report))


async def _start_service(
    settings: Settings, lock: FolderLock, stack: AsyncExitStack, servers: Sequence[ServerProcess], report: Report
) -> list[ServiceProcess]:
    report("Creating topics and indexes")
    await run_init(settings)
    report(f"Starting {', '.join(_process_names(settings))}")
    processes = await stack.enter_async_context(_run_service(settings, lock))
    address = settings.http.address
    await _wait_until_ready(address, processes)
    async with connected(settings) as (database, publisher):
        if not await patiently("MongoDB", StoreRepository(database).all):
            report(f"Registering the sample store {SAMPLE_STORE['id']}")
            topic = settings.topics.name(Topic.STORE_UPDATES)
            store = Envelope("/plaudit/up").wrap(topic, "Electronics", "store.update", SAMPLE_STORE)
            # On a busy machine it can take longer than the timeout of a publication.
            await patiently("Kafka", partial(publisher.publish, [store]))
        # The store exists only once the worker consumes: then all is ready.
        await _wait_for_a_store(database)
        if settings.smtp.host and (missing := await missing_sender(settings, StoreRepository(database))):
            report(f"Some mails have no sender. {missing}")
    for process in processes:
        if process.name not in FIRST_PROCESSES:
            await process.start()
    stack.callback(settings.endpoints_file.unlink, missing_ok=True)
    with naming(settings.endpoints_file):
        write_private(settings.endpoints_file, json.dumps(_endpoints(settings, servers), indent=2) + "\n")
    report(f"Plaudit is ready: {address}  (documentation: {address}/docs)")
    kafka, mongo = settings.kafka_connection().bootstrap_servers, mongo_hosts(settings.mongo_uri())
    report(f"Kafka {kafka}   MongoDB {mongo}   database {settings.mongo.database}")
    report(f"Users and passwords are in {settings.endpoints_file}, which only you can read.")
    broker = _embedded_broker(servers)
    if broker and broker.password is None:
        instead = "PLAUDIT_BROKER=kafka and " if isinstance(broker, TansuProcess) else ""
        report(
            "Every user of this machine can read and write Kafka. "
            f"Set {instead}PLAUDIT_EMBEDDED__KAFKA_AUTH=true to require a password."
        )
    report(f"Logs are in {settings.data / 'logs'}. Ctrl-C stops everything.")
    return processes


def _endpoints(settings: Settings, servers: Sequence[ServerProcess]) -> PublishedAddresses:
    """The addresses of everything, for commands that run beside it."""
    endpoints: PublishedAddresses = {
        "http": settings.http.address,
        "kafka": settings.kafka_connection().bootstrap_servers,
        "mongo": settings.mongo_uri(),
        "database": settings.mongo.database,
    }
    if not settings.kafka.idempotence:
        endpoints["idempotence"] = False
    broker = _embedded_broker(servers)
    if broker and broker.password is not None:
        endpoints["kafkaSasl"] = {
            "securityProtocol": "SASL_PLAINTEXT",
            "mechanism": "PLAIN",
            "username": KAFKA_USER,
            "password": broker.password,
        }
    return endpoints


def _embedded_broker(servers: Sequence[ServerProcess]) -> ServerProcess | None:
    return next((server for server in servers if not isinstance(server, MongoProcess)), None)


async def _start_servers(settings: Settings, stack: AsyncExitStack, report: Report) -> list[ServerProcess]:
    """Start the servers without a configured address, concurrently, and put their addresses into the settings."""
    servers: list[ServerProcess] = []

    async def mongo() -> None:
        server = await stack.enter_async_context(embedded_mongo(settings.data, report))
        settings.mongo.uri = SecretStr(server.uri)
        servers.append(server)

    async def kafka() -> None:
        broker = Broker(settings.broker)
        kafka = embedded_kafka(settings.data, report, broker=broker, with_password=settings.embedded.kafka_auth)
        server = await stack.enter_async_context(kafka)
        settings.kafka.bootstrap_servers = server.address
        if server.password is not None:
            settings.kafka.security_protocol, settings.kafka.sasl_mechanism = "SASL_PLAINTEXT", "PLAIN"
            settings.kafka.sasl_username, settings.kafka.sasl_password = KAFKA_USER, SecretStr(server.password)
        if isinstance(server, TansuProcess):
            settings.kafka.idempotence = False
        servers.append(server)

    try:
        async with asyncio.TaskGroup() as group:
            if not settings.mongo.uri:
                group.create_task(mongo())
            if not settings.kafka.bootstrap_servers:
                group.create_task(kafka())
    except ExceptionGroup as failures:  # not `except*`: before Python 3.11.4 it wraps what is raised there in a group
        raise failures.exceptions[0] from failures
    return servers


def _environment(settings: Settings) -> dict[str, str]:
    """The variables for the child processes: the servers of this run, and the address to listen at."""
    kafka = settings.kafka
    variables = {
        "HTTP__HOST": settings.http.host,
        "HTTP__PORT": f"{settings.http.port}",
        "MONGO__URI": settings.mongo_uri(),
        "KAFKA__BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "KAFKA__SECURITY_PROTOCOL": kafka.security_protocol,
        "KAFKA__SASL_MECHANISM": kafka.sasl_mechanism,
        "KAFKA__SASL_USERNAME": kafka.sasl_username,
        "KAFKA__SASL_PASSWORD": kafka.sasl_password.get_secret_value() if kafka.sasl_password else None,
        "KAFKA__IDEMPOTENCE": f"{kafka.idempotence}",
    }
    return {f"PLAUDIT_{name}": value for name, value in variables.items() if value is not None}


def _process_names(settings: Settings) -> list[str]:
    others = ["scheduler", "mailer"] if settings.smtp.host else ["scheduler"]
    return [*FIRST_PROCESSES, *others]


def _names_with_metrics(settings: Settings) -> list[str]:
    """The processes that need a port for metrics, each the next one; the API serves them at its HTTP address."""
    return [name for name in _process_names(settings) if name != "api"]


@asynccontextmanager
async def _run_service(settings: Settings, lock: FolderLock) -> AsyncIterator[list[ServiceProcess]]:
    logs = settings.data / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    common = _environment(settings)
    first = settings.metrics.port
    ports = {name: first + index for index, name in enumerate(_names_with_metrics(settings)) if first}
    processes = []
    for name in _process_names(settings):
        variables = {**common, "PLAUDIT_METRICS__PORT": f"{ports.get(name, 0)}"}
        # They have the port and write the logs, so the folder stays locked until they have ended, too.
        processes.append(ServiceProcess(name, logs, variables, keep_open=(lock.descriptor,)))
    try:
        for process in processes:
            if process.name in FIRST_PROCESSES:
                await process.start()
        yield processes
    finally:
        await asyncio.gather(*(process.stop() for process in processes))


async def _wait_until_ready(address: str, processes: Sequence[ServiceProcess]) -> None:
    try:
        # Not through a proxy that the environment names: that is for the internet.
        async with asyncio.timeout(_READY_TIMEOUT_S), httpx.AsyncClient(trust_env=False) as client:
            while True:
                for process in processes:
                    if process.exit_code is not None:
                        ended = f"The {process.name} process ended with code {process.exit_code}."
                        raise CommandError(f"{ended} {end_of_log(process.log)}")
                try:
                    response = await client.get(f"{address}/health/ready")
                    if _says_ready(response) and all(process.exit_code is None for process in processes):
                        return
                except httpx.TransportError:
                    pass  # it doesn't listen yet
                await asyncio.sleep(0.05)
    except TimeoutError:
        logs = ", ".join(str(process.log) for process in processes)
        raise CommandError(f"The service is not ready after {_READY_TIMEOUT_S:.0f} s. See {logs}.") from None


def _says_ready(response: httpx.Response) -> bool:
    try:
        health = response.json()
    except ValueError:
        return False  # the answer of another program
    return isinstance(health, dict) and health.get("reads") == health.get("commands") == "pass"


async def _wait_for_a_store(database: Database) -> None:
    async def has_store() -> bool:
        return bool(await patiently("MongoDB", StoreRepository(database).all))

    try:
        async with asyncio.timeout(_READY_TIMEOUT_S):
            await until(has_store)
    except TimeoutError:
        raise CommandError("The worker doesn't consume. See its log.") from None
