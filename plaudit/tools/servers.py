"""The servers of a command: it waits for them, and checks that they are those of a service before it does anything."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from pymongo.errors import PyMongoError

from messaging.kafka.publisher import Publisher
from messaging.topics import Topic
from plaudit.config import ConfigurationError, MissingAddressError, Settings
from plaudit.errors import CommandError
from plaudit.processes.connections import connected, connected_database
from plaudit.processes.waiting import existing_topics, patiently
from storage.database import Database, is_refused
from storage.schema import SchemaMarks
from storage.unit_of_work import is_unavailable

T = TypeVar("T")

ANSWER_S: Final = 4.0
"""Seconds that a server has to answer a check."""


@asynccontextmanager
async def reached(settings: Settings, *topics: Topic) -> AsyncIterator[tuple[Database, Publisher]]:
    """The database and a publisher, once MongoDB answers, and Kafka if the command publishes to `topics`.

    Raises what `check_database` and `check_topics` do, and SchemaRefusedError.
    """
    async with connected(settings) as (database, publisher):
        await patiently("MongoDB", SchemaMarks(database).check, _is_temporary)
        await check_database(database)
        if topics:
            await check_topics(settings, [settings.topics.name(topic) for topic in topics])
        yield database, publisher


async def check_database(database: Database) -> None:
    """Raises CommandError: Plaudit hasn't prepared this database. Waits until MongoDB answers.

    In a database of a wrong name a command would find nothing, and report success.
    """
    if await patiently("MongoDB", SchemaMarks(database).is_blank, _is_temporary):
        raise CommandError(
            f"The database {database.name} has no data of Plaudit. Check PLAUDIT_MONGO__DATABASE; `plaudit init` "
            "prepares a new one."
        )


def _is_temporary(error: BaseException) -> bool:
    # Waiting doesn't make a password right.
    return is_unavailable(error) and not is_refused(error)


async def check_topics(settings: Settings, names: Collection[str]) -> None:
    """Raises CommandError: one of these topics is missing. Waits until Kafka answers.

    Messages that a command owes to a missing topic would block the outbox for all workers.
    """
    there = await existing_topics(settings.kafka_connection())
    missing = [name for name in names if name not in there]
    if missing:
        raise missing_topic(settings, missing[0], there)


def missing_topic(settings: Settings, name: str, there: Collection[str]) -> CommandError:
    """The error for a missing topic. If none of our topics exists, it suspects the prefix."""
    has_ours = not set(there).isdisjoint(settings.topics.all())
    doubt = "check PLAUDIT_KAFKA__TOPIC_PREFIX, and the user's permission to see its topics (DESCRIBE). "
    question = "" if has_ours else doubt
    return CommandError(f"There is no topic {name}: {question}`plaudit init` creates what is missing.")


async def answer_of(settings: Settings, question: Callable[[Database], Awaitable[T]]) -> T | None:
    """The answer of MongoDB to a check of another server; None if it can't be asked, which its own checks report."""
    try:
        client, database = connected_database(settings, timeout=ANSWER_S)
    except (MissingAddressError, ConfigurationError):
        return None
    async with client:
        try:
            return await question(database)
        except PyMongoError:
            return None
