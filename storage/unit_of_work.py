"""A unit of work: one transaction in MongoDB, and the messages to Kafka that belong to it."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from time import monotonic
from typing import Final, TypeVar

from pymongo.errors import PyMongoError

from domain.commands import CommandMark, Outcome
from domain.delivery import OutgoingMessage
from messaging.kafka.connection import is_broker_away
from storage.audit import AuditEntry
from storage.database import Database, Session, in_transaction, is_database_away
from storage.images.files import is_image_store_away
from storage.moments import server_time
from storage.outbox import Outbox, Owed, Publish
from storage.outcomes import ItemOutcome
from storage.repositories import Repositories

T = TypeVar("T")

CONFLICTS_S: Final = 30.0
"""Seconds for which a transaction is repeated after conflicts: among many small ones, a large one may never succeed as
a whole, but does in parts."""

RetryWhileAway = Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]
"""Repeats an attempt while a server is unavailable."""


class ConflictsError(PyMongoError):
    """A transaction kept meeting conflicts: it is tried again, in parts if possible."""

    def __init__(self) -> None:
        super().__init__(f"The transaction has conflicted with others for {CONFLICTS_S:g} seconds")


@dataclass(slots=True)
class UnitOfWork:
    """One attempt of a transaction: its session, and pending outcomes, messages and audit entries, written at the
    end."""

    session: Session
    repositories: Repositories
    answers: list[ItemOutcome] = field(default_factory=list)
    messages: list[OutgoingMessage] = field(default_factory=list)
    audited: list[AuditEntry] = field(default_factory=list)

    async def now(self) -> datetime:
        """The time by MongoDB's clock, before that of any message from the moment in which the unit takes effect."""
        return await server_time(self.session.client.admin)

    async def is_answered(self, command_id: str | None, item_id: str) -> bool:
        """True for a repeat of a command: its outcome for this item is stored, or pending in this attempt."""
        if not command_id:
            return False
        key = (command_id, item_id)
        if any(answer.key == key for answer in self.answers):
            return True
        return key in await self.repositories.outcomes.answers([key], self.session)

    def answer(
        self,
        command_id: str | None,
        item_id: str,
        outcome: Outcome,
        reason: str | None = None,
        *,
        mark: CommandMark | None = None,
        message: str | None = None,
    ) -> None:
        """Remember the outcome of an item of a command; not without a command id, by which it is looked up. `message`:
        the reason in words, if the code doesn't say it all."""
        if command_id:
            self.answers.append(ItemOutcome(command_id, item_id, outcome, reason, mark, message=message))

    def emit(self, messages: Iterable[OutgoingMessage]) -> None:
        """Owe messages to Kafka: they are published after the transaction, at least once."""
        self.messages += messages

    def audit(self, entries: Iterable[AuditEntry]) -> None:
        """Add entries to the audit log."""
        self.audited += entries


class Transactions:
    """Runs units of work.

    A unit takes effect completely or not at all. Its messages are published after its commit by the process that ran it
    or, if that died, by another one once they are `OVERDUE`. With `patience`, `run` waits until Kafka has them: callers
    that publish later messages need that, or those would come first.
    """

    def __init__(
        self, database: Database, repositories: Repositories, publish: Publish, patience: RetryWhileAway | None = None
    ) -> None:
        self._database = database
        self._repositories = repositories
        self._patience = patience
        self.outbox = Outbox(database, publish)

    async def run(self, function: Callable[[UnitOfWork], Awaitable[T]]) -> T:
        """Run a function in a transaction, then publish the messages that it owes; returns the function's result."""
        result, owed = await self.commit(function)

        async def settle() -> None:
            while owed:
                await self.outbox.settle(owed[:1])
                del owed[0]

        await (self._patience(settle) if self._patience else settle())
        return result

    async def commit(self, function: Callable[[UnitOfWork], Awaitable[T]]) -> tuple[T, list[Owed]]:
        """Run a function in a transaction; returns its result, and the messages that it owes, for `outbox.settle`.

        The function is called again after a conflict, with nothing pending, so it must change nothing but the database.
        Raises ConflictsError if conflicts persist.
        """
        deadline, attempts = monotonic() + CONFLICTS_S, count()

        async def attempt(session: Session) -> tuple[T, list[Owed]]:
            if next(attempts) and monotonic() > deadline:
                raise ConflictsError
            work = UnitOfWork(session, self._repositories)
            result = await function(work)
            now = datetime.now(UTC)
            await self._repositories.outcomes.remember(work.answers, now, session)
            await self._repositories.audit.add(work.audited, now, session)
            return result, await self.outbox.add(work.messages, now, session)

        return await in_transaction(self._database, attempt)


def is_unavailable(error: BaseException) -> bool:
    """True if the same operation will work once MongoDB, Kafka or the image store is available again."""
    return is_database_away(error) or is_broker_away(error) or is_image_store_away(error)
