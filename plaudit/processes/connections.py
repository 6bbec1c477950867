"""Runs a process: its connections to Kafka and MongoDB, its telemetry, and stop signals."""

import asyncio
import os
import select
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

import structlog
from obstore.exceptions import BaseError
from pymongo.errors import InvalidName, InvalidURI, PyMongoError

from domain.schema import SchemaMark
from messaging.kafka.aiokafka_internals import find_brokers_again, recover_lost_connections
from messaging.kafka.partition_counts import Growth, PartitionCounts
from messaging.kafka.publisher import Publisher
from messaging.topics import Topic
from plaudit.config import ConfigurationError, Settings
from plaudit.credentials import mongo_hosts
from plaudit.processes.probes import Probes
from plaudit.processes.telemetry import serve_telemetry
from plaudit.processes.waiting import make_keys, patiently, prepare_servers
from storage.database import Client, Database, connect
from storage.images.files import ImageFiles
from storage.pymongo_internals import cancel_and_wait
from storage.schema import SchemaMarks
from storage.shards import shard
from storage.topics_growth import GrowthRepository

T = TypeVar("T")

STOP_S: Final = 9.5
"""Seconds from the stop signal until a process that still runs is ended by force."""

_AGAIN_S: Final = 8.0
"""Seconds after which cancelled work is cancelled again: longer than the work in progress may take."""

_INVALID_URI: Final = (
    "PLAUDIT_MONGO__URI: not a valid URI of MongoDB. It begins with mongodb:// or mongodb+srv://; percent-encode "
    "special characters in the user and the password (/ as %2F), and each @ behind the hosts (as %40)"
)

log = structlog.get_logger()


@asynccontextmanager
async def connected(
    settings: Settings, *, query_timeout: float | None = None
) -> AsyncIterator[tuple[Database, Publisher]]:
    """The database and a publisher, closed when the block ends. Neither connects before its first use."""
    recover_lost_connections()
    find_brokers_again()
    client, database = connected_database(settings, timeout=settings.mongo.timeout, query_timeout=query_timeout)
    names, marks, growth = settings.topics, SchemaMarks(database), GrowthRepository(database)
    mark: SchemaMark | None = None

    async def load_growth() -> Mapping[str, Growth]:
        nonlocal mark
        if mark is None:
            mark = await marks.load()
        return {f"{names.prefix}{topic}": each for topic, each in (await growth.all()).items()}

    partition_counts = PartitionCounts(load_growth, names.name(Topic.REVIEW_CHANGES))
    publisher = Publisher(
        settings.kafka_connection(),
        partition_counts=partition_counts,
        is_by_place=lambda: mark is None or mark.has_places,
    )
    try:
        yield database, publisher
    finally:
        await publisher.stop()
        await client.close()


def connected_database(
    settings: Settings, *, timeout: float, query_timeout: float | None = None
) -> tuple[Client, Database]:
    """The configured client and database. Raises ConfigurationError for settings that can't even be tried."""
    uri = settings.mongo_uri()
    if mongo_hosts(uri) is None:
        raise ConfigurationError(_INVALID_URI)
    try:
        return connect(uri, settings.mongo_database(), timeout=timeout, query_timeout=query_timeout)
    except InvalidURI:
        # PyMongo's text can quote a part of the password, and tracebacks would show it.
        raise ConfigurationError(_INVALID_URI) from None
    except InvalidName as error:
        raise ConfigurationError(f"PLAUDIT_MONGO__DATABASE: {error}") from error
    except (PyMongoError, ValueError, OSError) as error:  # a wrong host or option, or the TLS files
        raise ConfigurationError(f"PLAUDIT_MONGO__URI: {error}") from error


async def check_addresses(settings: Settings) -> None:
    """Raise ConfigurationError or UnusableConnectionError for a configured server that can't even be tried."""
    if settings.mongo.uri:
        client, _ = connected_database(settings, timeout=1.0)
        await client.close()
    if settings.kafka.bootstrap_servers:
        settings.kafka_connection().client_options()


def opened_images(settings: Settings) -> ImageFiles:
    """The configured image store. Raises ConfigurationError if it can't be opened."""
    try:
        return settings.images.files(settings.data)
    except (BaseError, OSError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise ConfigurationError(f"PLAUDIT_IMAGES__STORE: {settings.images.address(settings.data)}: {why}") from error


async def run_init(settings: Settings) -> tuple[list[str], list[str]]:
    """Create missing topics, indexes and keys, and shard the collections on a sharded cluster; returns the topics that
    were created, and the collections that are sharded."""
    async with connected(settings) as (database, _):
        created = await prepare_servers(settings, database)
        sharded = await patiently("MongoDB", partial(shard, database))
        await make_keys(settings, database)
        return created, sharded


async def run_process(
    settings: Settings, name: str, work: Callable[[Database, Publisher, Probes], Coroutine[Any, Any, None]]
) -> None:
    """Prepare the servers and run `work` until SIGTERM or SIGINT; then cancel it, so that it finishes work in progress.

    Unavailable servers and rebalances can make a start long; a stop doesn't wait for it.
    """
    stop = watch_stop_signals(at_most=STOP_S)
    with serve_telemetry(settings, name) as probes:
        async with connected(settings) as (database, publisher):

            async def prepare_and_work() -> None:
                await prepare_servers(settings, database)
                await patiently("MongoDB", publisher.partition_counts.load)
                await work(database, publisher, probes)

            await run_unless_stopped(prepare_and_work(), stop, again_s=_AGAIN_S)
    log.info(f"{name} stopped")


def watch_stop_signals(*, at_most: float | None = None) -> asyncio.Task[bool]:
    """A task that ends at SIGTERM, SIGINT or, unless it is ignored as under nohup, SIGHUP: the terminal was closed.

    With `at_most`, a process that still runs that many seconds later is ended by force: nothing is lost, because work
    in progress is redelivered.
    """
    event = asyncio.Event()
    loop = asyncio.get_running_loop()

    def request_stop() -> None:
        if at_most is not None and not event.is_set():
            # In a thread, because the loop itself may hang.
            timer = threading.Timer(at_most, _exit_by_force)
            timer.daemon = True
            timer.start()
        event.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, request_stop)
    return asyncio.create_task(event.wait())


def watch_terminal() -> None:
    """Have this process get SIGHUP when its terminal is closed, even if only make could pass it on.

    The kernel sends SIGHUP to the leader of the terminal's session, and to the leader's group once that has ended. If
    make is the leader, as after `ssh -t host make up`, it waits for this process instead, and this one for nothing.
    """
    if os.getpgrp() != os.getsid(0) or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return  # a shell with job control passes it on; nohup wants none
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # there is none

    def wait() -> None:
        poll = select.poll()
        poll.register(terminal, 0)  # wakes up when it is closed, not for input
        poll.poll()
        os.kill(os.getpid(), signal.SIGHUP)

    threading.Thread(target=wait, daemon=True, name="terminal").start()


async def run_unless_stopped(work: Coroutine[Any, Any, T], stop: asyncio.Task[bool], *, again_s: float) -> T | None:
    """The result of `work`; None if `stop` ends first: it cancels `work`, and again every `again_s` seconds.

    Cancelled, it does the same: `work` has ended when it returns.
    """
    running = asyncio.create_task(work)
    try:
        await asyncio.wait([running, stop], return_when=asyncio.FIRST_COMPLETED)
        return running.result() if running.done() else None
    finally:
        await cancel_and_wait(running, again_s=again_s)


def _exit_by_force() -> None:
    log.error("not stopped in time; exiting by force, work in progress will be redelivered")
    os._exit(1)
