"""`plaudit api`: the facade as a process."""

import asyncio
import resource
from collections.abc import Sequence
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import Final

import structlog
import uvicorn
from fastapi import FastAPI

from api.app import create_app
from api.services import Services
from api.web.hygiene import WebRules
from api.web.limits import RateLimit
from console.app import add_console
from console.queue_news import TOPICS as CONSOLE_NEWS
from console.queue_news import QueueNews
from console.visits import Options
from messaging.kafka.checks import KafkaExamination
from messaging.kafka.dead_letters import DeadLetterTopics
from messaging.kafka.lag import ConsumerLag
from messaging.kafka.publisher import Publisher
from messaging.kafka.tail import Tail
from messaging.topics import ExpectedTopics
from plaudit.config import Settings
from plaudit.entity_types.registered import registered_entity_types
from plaudit.http_settings import HttpSettings
from plaudit.processes.authentication import authenticator, check_authentication
from plaudit.processes.connections import STOP_S, connected, opened_images, watch_stop_signals
from plaudit.processes.http_protocol import bounded_protocol
from plaudit.processes.listening import port_to_listen_at
from plaudit.processes.memory import YOUNG_OF_REQUESTS, tune_memory
from plaudit.processes.sign_in import sign_in
from plaudit.processes.telemetry import serve_telemetry
from plaudit.processes.uvicorn_internals import QuietServer
from plaudit.processes.waiting import patiently, prepare_servers
from storage.database import Database
from storage.indexes import IndexNotMadeError
from storage.pymongo_internals import cancel_and_wait
from storefront.app import add_storefront

log = structlog.get_logger()

_STOP_GRACE_S: Final = 8
"""Seconds that requests in progress have at a stop."""

_WAITS_S: Final = 3.0
"""Seconds of these after which requests stop waiting for the outcomes of commands."""

_RATE_WITH_AUTHENTICATION: Final = 500.0
_SPARE_FILES: Final = 256
"""File descriptors for servers, logs and the like, in addition to those of client connections."""


async def run_api(settings: Settings) -> None:
    """Serve HTTP until SIGTERM or SIGINT, then finish the requests in progress."""
    check_authentication(settings)
    # Unusable settings are reported before anything waits.
    settings.mongo_uri()
    settings.kafka_connection().client_options()
    stop = watch_stop_signals(at_most=STOP_S)
    _raise_file_limit(settings.http.max_connections)
    async with (
        connected(settings, query_timeout=settings.http.query_timeout) as (database, publisher),
        AsyncExitStack() as stack,
    ):
        probes = stack.enter_context(serve_telemetry(settings, "api"))
        lag = await stack.enter_async_context(ConsumerLag(settings.kafka_connection(), settings.topics))
        services = _services(settings, database, publisher, lag)
        app = create_app(
            services,
            web=WebRules(settings.http.cors_origins, service_names(settings)),
            rate_limit=RateLimit(_rate(settings)),
        )
        feed = QueueNews(Tail(settings.kafka_connection(), [settings.topics.name(each) for each in CONSOLE_NEWS]))
        stack.push_async_callback(feed.stop)
        console = settings.console
        options = Options(images=" ".join(console.image_origins), target=console.target)
        add_console(app, sign_in(settings, services), options, feed)
        add_storefront(app, settings.storefront)
        probes.refresh = app.state.gauges.refresh
        # Topics must exist before the first message; the facade answers 503 until Kafka is available.
        preparing = asyncio.create_task(_prepare(settings, database, publisher))
        watching = asyncio.create_task(app.state.gauges.keep_looking())

        def on_start(started: bool) -> None:
            tune_memory(YOUNG_OF_REQUESTS)
            probes.is_ready = started

        server = QuietServer(_uvicorn_config(app, settings.http), on_start)

        def request_stop(_: object) -> None:
            server.request_stop()
            asyncio.get_running_loop().call_later(_WAITS_S, services.waits.end)

        stop.add_done_callback(request_stop)
        preparing.add_done_callback(lambda task: request_stop(task) if _refusal(task) else None)
        try:
            await server.serve()
        except SystemExit as failed:
            # uvicorn has its own exit code for a failed start: ours is 1, with advice if its address can't be used.
            with port_to_listen_at(settings.http):
                raise SystemExit(1) from failed
        finally:
            probes.refresh = None
            refusal = _refusal(preparing)
            await cancel_and_wait(preparing, watching, stop)
        if refusal:
            raise refusal


def _services(settings: Settings, database: Database, publisher: Publisher, lag: ConsumerLag) -> Services:
    connection = settings.kafka_connection()
    expected = ExpectedTopics(settings.topics, settings.topic_layout, settings.remember_days)
    return Services(
        database,
        publisher,
        settings.topics,
        version=version("plaudit"),
        entity_types=registered_entity_types(settings),
        lag=lag,
        letters=DeadLetterTopics(connection, settings.topics),
        examination=KafkaExamination(connection, expected),
        erasure_keys=settings.privacy.keys(),
        token_keys=settings.review_tokens.keys(),
        reminders_need_email=settings.smtp.needs_email,
        image_files=opened_images(settings),
        authenticator=authenticator(settings, database),
        limits=settings.http,
    )


def _uvicorn_config(app: FastAPI, http: HttpSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=http.host,
        port=http.port,
        loop="none",
        http=bounded_protocol(http),
        # Clients other than trusted proxies can forge these headers.
        proxy_headers=bool(http.trusted_proxies),
        forwarded_allow_ips=list(http.trusted_proxies),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=_STOP_GRACE_S,
    )


async def _prepare(settings: Settings, database: Database, publisher: Publisher) -> None:
    # Early: ids of submissions depend on it.
    await patiently("MongoDB", publisher.partition_counts.load)
    try:
        await prepare_servers(settings, database)
    except IndexNotMadeError as error:
        log.error("served without an index, slowly", error=str(error))


def _refusal(preparing: asyncio.Task[None]) -> Exception | None:
    """The error of `preparing`, if any: this version can't or mustn't run on the servers, or can't prepare them."""
    error = preparing.exception() if preparing.done() and not preparing.cancelled() else None
    return error if isinstance(error, Exception) else None


def _rate(settings: Settings) -> float:
    """Requests per second that a client may send; 0: any number."""
    if settings.http.rate_per_second is not None:
        return settings.http.rate_per_second
    return _RATE_WITH_AUTHENTICATION if _has_authentication(settings) else 0.0


def service_names(settings: Settings) -> Sequence[str] | None:
    """Accepted host names, None for any. Without authentication a page under any other name could use the API."""
    if settings.http.allowed_hosts is not None:
        return settings.http.host, *settings.http.allowed_hosts
    return None if _has_authentication(settings) else (settings.http.host,)


def _has_authentication(settings: Settings) -> bool:
    return settings.auth.mode in ("api_key", "jwt")


def _raise_file_limit(connections: int) -> None:
    """Raise the soft limit of open files for this many connections; log a warning if the hard limit is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        possible = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))
        if possible < wanted:
            log.warning(
                "the limit of open files is too low for this number of connections", allowed=possible, wanted=wanted
            )
