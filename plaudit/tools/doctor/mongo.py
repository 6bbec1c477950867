"""Queries to MongoDB by checks of other servers."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from pymongo.errors import PyMongoError

from plaudit.config import ConfigurationError, MissingAddressError, Settings
from plaudit.processes.connections import connected_database
from storage.database import Database

T = TypeVar("T")

ANSWER_S: Final = 4.0


async def answer_of(settings: Settings, question: Callable[[Database], Awaitable[T]]) -> T | None:
    """The answer to a question; None if MongoDB can't be asked, which its own checks report."""
    try:
        client, database = connected_database(settings, timeout=ANSWER_S)
    except (MissingAddressError, ConfigurationError):
        return None
    async with client:
        try:
            return await question(database)
        except PyMongoError:
            return None
