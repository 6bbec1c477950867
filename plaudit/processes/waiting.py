"""Start-up that waits for Kafka and MongoDB to be available."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

import pymongo
import structlog
from aiokafka.admin import AIOKafkaAdminClient
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_exponential_jitter

from messaging.kafka.administration import admin_client
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.durability import why_not_durable as why_not_in_kafka
from messaging.metrics import RETRIES
from messaging.topics import Topic, TopicNames, check_topics, create_topics
from plaudit.config import Settings
from plaudit.errors import CommandError, short
from storage.database import Database
from storage.durability import why_not_durable as why_not_in_mongodb
from storage.indexes import IndexNotMadeError, ensure_indexes
from storage.review_tokens import ReviewTokenRepository
from storage.schema import SchemaMarks
from storage.sessions import SessionRepository
from storage.topics_growth import GrowthRepository
from storage.unit_of_work import is_unavailable

T = TypeVar("T")

log = structlog.get_logger()


_LONGEST_PAUSE_S: Final = 5.0
_FIRST_WARNED_ATTEMPT: Final = 4

_QUIET_S: Final = 10.0
"""Seconds after which an unanswered attempt is logged: a server may accept connections and never answer."""

_INDEXES_S: Final = 86_400.0
"""Seconds that the indexes of a large collection may take: longer than other commands."""

_IN_METRICS: Final = {"MongoDB": "mongodb", "Kafka": "kafka", "the image store": "images"}

_ADVICE: Final = "`plaudit doctor` shows what is wrong; Ctrl-C or SIGTERM stops waiting"


async def prepare_servers(settings: Settings, database: Database) -> list[str]:
    """Create topics and indexes, waiting for Kafka and MongoDB; returns the names of topics that were created.

    Raises UnusableConnectionError before it waits, SchemaRefusedError before anything is created; CommandError, in
    production; IndexNotMadeError last.
    """
    connection = settings.kafka_connection()
    connection.client_options()
    await patiently("MongoDB", SchemaMarks(database).check)
    growths = await patiently("MongoDB", GrowthRepository(database).all)
    counts = {topic: each.published or each.count for topic, each in growths.items()}

    async def make_indexes() -> IndexNotMadeError | None:
        try:
            # If the client gave up earlier, MongoDB would go on, and the index would be taken for finished.
            with pymongo.timeout(_INDEXES_S):
                await ensure_indexes(database, remember_days=settings.remember_days)
        except IndexNotMadeError as error:
            return error
        return None

    created, _, not_made = await asyncio.gather(
        _ask_kafka(connection, lambda admin: create_topics(admin, settings.topics, settings.topic_layout, counts)),
        # A new cluster creates its offsets topic when a coordinator is first looked up: better now than by consumers.
        _ask_kafka(connection, lambda admin: admin.find_coordinator(settings.topics.name(Topic.REVIEW_SUBMISSIONS))),
        patiently("MongoDB", make_indexes),
    )
    await _ask_kafka(connection, lambda admin: check_topics(admin, settings.topics))
    if settings.production:
        await _check_durability(connection, settings.topics, database)
    if not_made:
        raise not_made
    return created


async def _check_durability(connection: KafkaConnection, topics: TopicNames, database: Database) -> None:
    in_kafka = await _ask_kafka(connection, lambda admin: why_not_in_kafka(admin, topics.all()))
    reasons = [*in_kafka, *await patiently("MongoDB", partial(why_not_in_mongodb, database))]
    if reasons:
        raise CommandError(
            f"PLAUDIT_PRODUCTION is set, but losing one server would lose data: {'; '.join(reasons)}. Correct that "
            "(docs/reliability.md lists the settings), or unset PLAUDIT_PRODUCTION."
        )


async def make_keys(settings: Settings, database: Database) -> None:
    """Mark a fresh database, and generate the keys of console cookies, review tokens and forms where none are
    configured. The facade doesn't call it, because it writes nothing."""
    await patiently("MongoDB", SchemaMarks(database).mark_fresh)
    if not settings.console.cookie_keys:
        await patiently("MongoDB", SessionRepository(database).key.get_or_create)
    if not settings.review_tokens.key:
        await patiently("MongoDB", ReviewTokenRepository(database).signing_key)


async def existing_topics(connection: KafkaConnection) -> set[str]:
    """The names of all topics, once Kafka answers."""
    return set(await _ask_kafka(connection, lambda admin: admin.list_topics()))


async def existing_cluster(connection: KafkaConnection) -> str:
    """The id of the cluster, once Kafka answers: another or a new cluster at the same address has a different id."""
    return str((await _ask_kafka(connection, lambda admin: admin.describe_cluster()))["cluster_id"])


async def _ask_kafka(connection: KafkaConnection, question: Callable[[AIOKafkaAdminClient], Awaitable[T]]) -> T:
    """The result of `question`, once Kafka answers; each attempt has its own connection."""

    async def ask() -> T:
        async with admin_client(connection) as admin:
            return await question(admin)

    return await patiently("Kafka", ask)


async def patiently(
    what: str, attempt: Callable[[], Awaitable[T]], heals: Callable[[BaseException], bool] = is_unavailable
) -> T:
    """Retry until it works; raises only errors that waiting doesn't cure, for which `heals` is False."""

    def report(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        reason = short(error) if error else ""
        # The first attempts often fail on a server that has just started.
        level = logging.DEBUG if state.attempt_number < _FIRST_WARNED_ATTEMPT else logging.WARNING
        log_wait(level, state.attempt_number, reason)
        RETRIES.labels("start", _IN_METRICS[what]).inc()

    def log_wait(level: int, attempt: int, error: str) -> None:
        log.log(level, f"waiting for {what}", attempt=attempt, error=error, advice=_ADVICE)

    retrying = AsyncRetrying(
        retry=retry_if_exception(heals),
        wait=wait_exponential_jitter(multiplier=0.1, max=_LONGEST_PAUSE_S),
        before_sleep=report,
        reraise=True,
    )

    async def attempted() -> T:
        # Tenacity awaits only coroutine functions: it would return the coroutine of a lambda unawaited.
        number = int(retrying.statistics["attempt_number"])
        timer = asyncio.get_running_loop().call_later(_QUIET_S, log_wait, logging.WARNING, number, "no answer yet")
        try:
            return await attempt()
        finally:
            timer.cancel()

    result: T = await retrying(attempted)
    return result
