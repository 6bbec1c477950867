"""The whole examination, with a time limit for each server."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict
from typing import Final

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError
from pymongo.errors import OperationFailure, PyMongoError

from domain.findings import Finding, Level, failed, ok
from messaging.kafka.administration import admin_client
from messaging.kafka.checks import MOST_SETTLED, check_consumption, check_dead_letters, check_kafka, kept_letters
from messaging.kafka.connection import UnusableConnectionError
from messaging.kafka.durability import why_not_durable as why_not_in_kafka
from messaging.topics import ExpectedTopics
from plaudit.config import ConfigurationError, MissingAddressError, Settings
from plaudit.credentials import without_credentials
from plaudit.effective_configuration import UNREADABLE, loaded_settings, wrong_settings
from plaudit.errors import short
from plaudit.processes.connections import connected_database
from plaudit.terminal import Terminal, shown
from plaudit.tools.doctor.configuration import check_configuration
from plaudit.tools.doctor.images import check_images
from plaudit.tools.doctor.issuer import check_issuer, check_sign_in
from plaudit.tools.doctor.mail import check_mail
from plaudit.tools.servers import ANSWER_S, answer_of
from storage.checks import check_documents, check_mongo, check_parked, check_rights
from storage.dead_letters_replays import ReplayRepository
from storage.durability import why_not_durable as why_not_in_mongodb

_LIMIT_S: Final = 15.0
"""Seconds for all checks of a server."""

_MAX_REASON: Final = 200

_STYLE: Final = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


async def examine(out: Terminal) -> bool:
    """Print all findings; returns True if none is a failure."""
    findings: list[Finding] = []
    async for finding in _findings():
        findings.append(finding)
        advice = f"  → {finding.advice}" if finding.advice else ""
        out.print(f"{finding.level:<4}", style=_STYLE[finding.level], end=" ")
        out.print(f"{finding.check:<16}{shown(finding.text)}{shown(advice)}")
    out.set_result([asdict(finding) for finding in findings])
    return all(finding.level is not Level.FAIL for finding in findings)


async def _findings() -> AsyncIterator[Finding]:
    try:
        settings = loaded_settings()
    except UNREADABLE as error:
        yield failed(
            "configuration", wrong_settings(error), "Correct the setting; nothing else can be checked until then."
        )
        return
    for finding in check_configuration(settings):
        yield finding
    servers = (
        ("mongodb", _mongo),
        ("kafka", _kafka),
        ("images", check_images),
        ("mail server", check_mail),
        ("token issuer", check_issuer),
        ("sign-in", check_sign_in),
    )
    for server, check in servers:
        found: list[Finding] = []
        try:
            async with asyncio.timeout(_LIMIT_S):
                async for finding in check(settings):
                    found.append(finding)
        except (MissingAddressError, UnusableConnectionError, ConfigurationError):
            pass  # reported by the check of the configuration
        except TimeoutError:
            text = f"the checks didn't finish within {_LIMIT_S:.0f} s"
            found.append(failed(server, text, "Check its load and the network."))
        for finding in found:
            yield finding


async def _mongo(settings: Settings) -> AsyncIterator[Finding]:
    try:
        client, database = connected_database(settings, timeout=ANSWER_S)
        async with client:
            async for finding in check_mongo(database, settings.remember_days):
                yield finding
            yield await check_rights(database)
            yield _durability("mongodb", await why_not_in_mongodb(database), settings)
            yield await check_documents(database)
            if damaged := await check_parked(database):
                yield damaged
    except ConfigurationError as error:
        yield failed("mongodb", without_credentials(str(error)), "Correct the setting: no process starts until then.")
    except OperationFailure as error:
        yield failed(
            "mongodb",
            f"refuses the request: {short(error)}",
            "Check the user in PLAUDIT_MONGO__URI and its privileges.",
        )
    except PyMongoError as error:
        yield failed("mongodb", f"does not answer: {short(error)}", "Start MongoDB, or correct PLAUDIT_MONGO__URI.")


async def _kafka(settings: Settings) -> AsyncIterator[Finding]:
    with _captured_log() as captured:
        try:
            async for finding in _examined_kafka(settings):
                yield finding
        except (KafkaError, TimeoutError, OSError, ValueError) as error:
            why = without_credentials(captured.text)[:_MAX_REASON] or short(error)
            advice = "Start Kafka, or correct PLAUDIT_KAFKA__BOOTSTRAP_SERVERS and its security settings."
            yield failed("kafka", f"does not answer: {why}", advice)


async def _examined_kafka(settings: Settings) -> AsyncIterator[Finding]:
    connection = settings.kafka_connection()
    options = connection.client_options()
    async with AsyncExitStack() as stack:
        async with asyncio.timeout(ANSWER_S):
            admin = await stack.enter_async_context(admin_client(connection))
            consumer = AIOKafkaConsumer(**options, enable_auto_commit=False)
            stack.push_async_callback(consumer.stop)
            await consumer.start()
        are_topics_there = True
        expected = ExpectedTopics(settings.topics, settings.topic_layout, settings.remember_days)
        async for finding in check_kafka(admin, consumer, expected):
            are_topics_there &= (finding.check, finding.level) != ("topics", Level.FAIL)
            yield finding
        yield _durability("kafka", await why_not_in_kafka(admin, settings.topics.all()), settings)
        if are_topics_there:
            async for finding in check_consumption(admin, connection, settings.topics):
                yield finding
        settled = await answer_of(settings, lambda database: ReplayRepository(database).settled(MOST_SETTLED + 1))
        yield check_dead_letters(await kept_letters(consumer, admin, settings.topics, settled))


def _durability(server: str, reasons: list[str], settings: Settings) -> Finding:
    check = f"{server} loss"
    if not reasons:
        return ok(check, "losing one server loses no data")
    text = f"losing one server would lose data: {'; '.join(reasons)}"
    if settings.production:
        return failed(check, text, "No process starts, because PLAUDIT_PRODUCTION is set. See docs/reliability.md.")
    return ok(check, f"{text}; with PLAUDIT_PRODUCTION set, no process would start")


class _LastMessage(logging.Handler):
    """Keeps the last log message, for a finding in one line."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self.text = record.getMessage()


@contextmanager
def _captured_log() -> Iterator[_LastMessage]:
    """Capture aiokafka's log, and don't propagate it: it raises that no server answers, and logs why."""
    captured, logger = _LastMessage(), logging.getLogger("aiokafka")
    logger.addHandler(captured)
    logger.propagate = False
    try:
        yield captured
    finally:
        logger.removeHandler(captured)
        logger.propagate = True
