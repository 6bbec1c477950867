"""The job: ask for reviews of what is due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final, NamedTuple

import structlog
from bson import ObjectId

from domain.delivery import OutgoingMessage
from domain.reminders import Decided, Reminder, Skip, without_mail
from domain.stores import ReminderSettings
from messaging.decoding import MAX_MESSAGE_BYTES
from messaging.envelope import Envelope
from messaging.events import reminder_requested
from messaging.kafka.publisher import Publisher
from messaging.mails import mail_command_message
from messaging.metrics import REMINDERS
from messaging.templates.rendering import ORDER_REVIEW_REQUEST, worked
from messaging.topics import Topic, TopicNames
from scheduler.decisions import Decisions
from scheduler.mails import MailWriter, UnwritableMailError
from storage.database import Database, Session, in_transaction
from storage.outbox import OutboxRepository
from storage.templates import TemplateRepository

log = structlog.get_logger()

BATCH: Final = 200
"""Orders of one transaction."""

_PROGRESS: Final = 1_000
"""Orders from one line in the log to the next."""

_MOST_OWED_BYTES: Final = 4 * 1024 * 1024
"""Of one document of the outbox; MongoDB allows 16 MiB."""

_WRITING_S: Final = 10.0
"""So long mails are written for one transaction, which MongoDB ends after 60 s; the next one has the rest."""

_OVERDUE: Final = timedelta(seconds=15)
"""Older than this, owed messages belong to a process that died: a living one publishes at once."""

_MOST_FRUITLESS: Final = 3
"""After so many batches in a row on which another process was faster, it may have the rest."""


@dataclass(slots=True)
class RunReport:
    """What a run did: reminders sent, and orders that got none, by reason."""

    reminders: int = 0
    skipped: Counter[Skip] = field(default_factory=Counter)

    @property
    def orders(self) -> int:
        """How many orders were decided on."""
        return self.reminders + self.skipped.total()

    def add(self, decided: Iterable[Decided]) -> None:
        """Count decisions."""
        for each in decided:
            if isinstance(each.decision, Skip):
                self.skipped[each.decision] += 1
            else:
                self.reminders += 1


class _Owed(NamedTuple):
    """Messages in the outbox."""

    id: ObjectId | None
    messages: Sequence[OutgoingMessage]


class ReminderJob:
    """Sends the reminders that are due, each once.

    A batch is one transaction: it reads the orders anew, decides, and writes how far their reminders have come, what
    each customer has got, and the mails that are owed. Killed before its end it has done nothing; after it, others
    publish what is owed, with the same ids. Two jobs at once conflict on the orders or on the customers: one of them
    repeats, and finds that nothing is due any more.
    """

    def __init__(self, database: Database, publisher: Publisher, topics: TopicNames, *, sender: str) -> None:
        self._database = database
        self._publisher = publisher
        self._topics = topics
        self._sender = sender
        self._envelope = Envelope("/plaudit/scheduler")
        self._decisions = Decisions(database)
        self._templates = TemplateRepository(database)
        self._outbox = OutboxRepository(database)

    async def run(self, now: datetime, may_go_on: Callable[[], bool] = lambda: True) -> RunReport:
        """Send what is due at that moment, in batches, until nothing is or `may_go_on` says no."""
        report, told, fruitless = RunReport(), 0, 0
        await self._settle_overdue()
        writer = MailWriter(await self._templates.all_of(ORDER_REVIEW_REQUEST), self._sender)
        while fruitless < _MOST_FRUITLESS and may_go_on():
            # Read for each batch, so that reminders can be switched off at any time.
            settings = (await self._decisions.stores.general()).reminder
            if not settings.enabled:
                break
            stores = await self._decisions.open_stores()
            ids = await self._decisions.reminders.due(settings, stores, now, BATCH)
            if not ids:
                break
            decided = await self._decide(ids, settings, writer, now)
            report.add(decided)
            for each in decided:
                REMINDERS.labels(each.decision.value if isinstance(each.decision, Skip) else "requested").inc()
            fruitless = 0 if any(each.is_changed for each in decided) else fruitless + 1
            if report.orders - told >= _PROGRESS:
                told = report.orders
                log.info("sending reminders", sent=report.reminders, skipped=report.skipped.total())
        return report

    async def _decide(
        self, ids: Sequence[str], settings: ReminderSettings, writer: MailWriter, now: datetime
    ) -> list[Decided]:
        """Decide on these orders and do what follows."""

        async def work(session: Session) -> tuple[list[Decided], list[_Owed]]:
            orders = await self._decisions.reminders.of_ids(ids, session)
            decided, messages = [], list[OutgoingMessage]()
            before, until = {order.id: order.reminders for order in orders}, monotonic() + _WRITING_S
            for each in await self._decisions.on(orders, settings, now, session=session):
                try:
                    messages += await worked(self._messages, each, writer, now)
                    decided.append(each)
                except UnwritableMailError as error:
                    log.error("reminder failed; its order is left alone", order=each.order.id, error=str(error))
                    decided.append(without_mail(each, before[each.order.id]))
                if monotonic() > until:
                    break
            parts = list(_parts(messages))
            # All writes at the end: killed from here on, the process leaves orders that nobody can write for a while.
            await self._decisions.reminders.save([d.order for d in decided if d.is_changed], session)
            await self._decisions.reminders.save_sent(_sent(decided), session)
            at = datetime.now(UTC)  # real, whatever `now` is: the outbox is not only ours
            return decided, [_Owed(await self._outbox.add(part, at, session), part) for part in parts]

        decided, owed = await in_transaction(self._database, work)
        for each in owed:
            await self._settle(*each)
        return decided

    def _messages(self, decided: Decided, writer: MailWriter, now: datetime) -> list[OutgoingMessage]:
        """The messages that follow from a decision. Raises UnwritableMailError."""
        order, store, reminder, _ = decided
        if not isinstance(reminder, Reminder):
            return []
        mail = mail_command_message(self._topics, self._envelope, writer.command(reminder, order, store))
        if len(mail.value or b"") > MAX_MESSAGE_BYTES:
            raise UnwritableMailError(f"the mail has more than {MAX_MESSAGE_BYTES} bytes")
        event = reminder_requested(reminder, order, now)
        topic = self._topics.name(Topic.EVENTS)
        return [mail, self._envelope.wrap(topic, order.id, "ReminderRequested", event)]

    async def _settle(self, id: ObjectId | None, messages: Sequence[OutgoingMessage]) -> None:
        if id is not None:
            await self._publisher.publish(messages)
            await self._outbox.settle(id)

    async def _settle_overdue(self) -> None:
        """Publish what a process that died still owed."""
        while owed := await self._outbox.owed_before(datetime.now(UTC) - _OVERDUE, limit=5):
            for each in owed:
                await self._settle(*each)


def _sent(decided: Iterable[Decided]) -> dict[str, int]:
    """How many reminders the customers who get one have got then."""
    return {
        each.decision.customer_id: each.order.reminders.sent_to_customer
        for each in decided
        if isinstance(each.decision, Reminder)
    }


def _parts(messages: Iterable[OutgoingMessage]) -> Iterator[list[OutgoingMessage]]:
    """Messages in parts that a document can hold."""
    part: list[OutgoingMessage] = []
    size = 0
    for message in messages:
        part.append(message)
        size += len(message.value or b"")
        if size >= _MOST_OWED_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
