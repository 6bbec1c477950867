"""The job: ask for reviews of what is due."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic
from typing import Final

import structlog

from domain.delivery import OutgoingMessage
from domain.reminders import Decided, Reminder, Skip, without_mail
from domain.stores import ReminderSettings
from messaging.decoding import MAX_MESSAGE_BYTES
from messaging.envelope import Envelope
from messaging.events import reminder_requested
from messaging.kafka.publisher import Publisher
from messaging.mails import mail_command_message
from messaging.metrics import REMINDERS
from messaging.templates.rendering import in_template_thread
from messaging.topics import Topic, TopicNames
from scheduler.mails import MailWriter, SavedTemplates, Templates, UnwritableMailError
from storage.database import Database
from storage.reminders_decisions import ReminderDecisions
from storage.repositories import Repositories
from storage.shapes import StoredDocumentError
from storage.unit_of_work import Transactions, UnitOfWork, is_unavailable

log = structlog.get_logger()

BATCH: Final = 200
"""Orders of one transaction, at most: those of many lines are fewer."""

_PROGRESS: Final = 1_000
"""Orders from one line in the log to the next."""

_WRITING_S: Final = 5.0
"""So long mails are written for one transaction, which workers end once it has stood still for twice as long; the next
one has the rest."""

_WRITTEN_BYTES: Final = 8 * 1024 * 1024
"""So many bytes of mails, or one mail more, are written for one transaction: until its end they are in memory, here and
at MongoDB."""

_MOST_ASIDE: Final = 10_000
"""A run that could do nothing for more orders than these ends as failed: what it asks MongoDB for would become too
large. They are damaged, or fail, or another process is faster, which may have the rest."""


@dataclass(slots=True)
class RunReport:
    """The result of a run: reminders sent, and orders that got none, by reason.

    `failed` orders met an error of ours, and `damaged` ones can't be read: both wait for a later run. `is_cut`: it
    could do nothing for so many that it didn't look at those behind them.
    """

    reminders: int = 0
    skipped: Counter[Skip] = field(default_factory=Counter)
    failed: int = 0
    damaged: int = 0
    is_cut: bool = False

    @property
    def is_failure(self) -> bool:
        """True if the run is not done: it was cut, or sent nothing and had errors of ours."""
        return self.is_cut or (self.failed > 0 and not self.reminders)

    @property
    def orders(self) -> int:
        """The number of orders that were decided on."""
        return self.reminders + self.skipped.total()

    def add(self, batch: "_Batch") -> None:
        """Count what a transaction did, also in the metric."""
        for each in batch.decided:
            if isinstance(each.decision, Skip):
                self.skipped[each.decision] += 1
            else:
                self.reminders += 1
            REMINDERS.labels(each.decision.value if isinstance(each.decision, Skip) else "requested").inc()
        self.failed += len(batch.unwritten)
        self.damaged += len(batch.damaged)
        REMINDERS.labels("failed").inc(len(batch.unwritten))
        REMINDERS.labels("damaged").inc(len(batch.damaged))


@dataclass(slots=True)
class _Batch:
    """The result of a transaction: decisions, the errors of orders that are damaged, and the ids of those whose mails
    couldn't be written by an error of ours."""

    decided: list[Decided] = field(default_factory=list)
    damaged: Sequence[StoredDocumentError] = ()
    unwritten: set[str] = field(default_factory=set)

    def aside(self) -> set[str]:
        """The orders that are as they were: this run would find them due again."""
        unchanged = {each.order.id for each in self.decided if not each.is_changed}
        return unchanged | self.unwritten | {str(error.id) for error in self.damaged}


class ReminderJob:
    """Sends the reminders that are due, each once.

    A batch is one transaction: it reads the orders anew, decides, and writes how far their reminders have come, what
    each customer has got, and the mails that are owed. Killed before its end it has done nothing; after it, others
    publish what is owed, with the same ids. Two jobs at once conflict on the orders or on the customers: one of them
    repeats, and finds that nothing is due any more. Orders that are damaged, or that nobody can write a mail about by
    an error of ours, wait for a later run, and keep none behind them from theirs.
    """

    def __init__(
        self,
        database: Database,
        publisher: Publisher,
        topics: TopicNames,
        *,
        sender: str | None,
        token_keys: Sequence[bytes] = (),
    ) -> None:
        self._topics = topics
        self._sender = sender
        self._envelope = Envelope("/plaudit/scheduler")
        self._decisions = ReminderDecisions(database)
        repositories = Repositories(database, token_keys=token_keys)
        self._templates = repositories.templates
        self._tokens = repositories.review_tokens
        self._transactions = Transactions(database, repositories, publisher.publish)

    async def run(self, now: datetime, may_go_on: Callable[[], bool] = lambda: True) -> RunReport:
        """Send what is due at that moment, in batches, until nothing is or `may_go_on` says no."""
        report, told, aside = RunReport(), 0, set[str]()
        await self._transactions.outbox.settle_overdue()
        writer = MailWriter(SavedTemplates(self._templates), self._sender, await self._tokens.signing_key(), now)
        while not report.is_cut and may_go_on():
            # Read for each batch, so that reminders can be switched off at any time.
            settings = (await self._decisions.stores.general()).reminder
            if not settings.enabled:
                break
            stores = await self._decisions.open_stores()
            ids = await self._decisions.reminders.due(settings, stores, now, BATCH, without=aside)
            if not ids:
                break
            batch = await self._decide(ids, settings, writer, now)
            report.add(batch)
            for error in batch.damaged:
                log.error("no reminder until this order is mended", order=error.id, reason=error.reason)
            aside |= batch.aside()
            report.is_cut = len(aside) > _MOST_ASIDE
            if report.orders - told >= _PROGRESS:
                told = report.orders
                log.info("sending reminders", sent=report.reminders, skipped=report.skipped.total())
        return report

    async def _decide(
        self, ids: Sequence[str], settings: ReminderSettings, writer: MailWriter, now: datetime
    ) -> _Batch:
        """Decide on these orders and do what follows."""

        async def decide(work: UnitOfWork) -> _Batch:
            orders, damaged = await self._decisions.reminders.readable(ids, work.session)
            batch, messages = _Batch(damaged=damaged), list[OutgoingMessage]()
            before, until = {order.id: order.reminders for order in orders}, monotonic() + _WRITING_S
            failed, written = set[str | None](), 0
            for each in await self._decisions.on(orders, settings, now, session=work.session):
                if each.order.customer.id in failed:
                    # Decided on as if the mail had been sent: the next batch does it anew.
                    continue
                try:
                    if isinstance(each.decision, Reminder):
                        usable = await writer.templates.usable(each.order, each.store)
                        new = await in_template_thread(self._messages, each, each.decision, writer, usable, now)
                        messages += new
                        written += sum(len(message.value or b"") for message in new)
                    batch.decided.append(each)
                except UnwritableMailError as error:
                    log.error("reminder failed; its order is left alone", order=each.order.id, error=str(error))
                    batch.decided.append(without_mail(each, before[each.order.id]))
                    failed.add(each.order.customer.id)
                except Exception as error:
                    if is_unavailable(error):
                        raise
                    log.exception("reminder failed; its order waits for the next run", order=each.order.id)
                    batch.unwritten.add(each.order.id)
                    failed.add(each.order.customer.id)
                if monotonic() > until or written > _WRITTEN_BYTES:
                    break
            # All writes at the end: killed from here on, the process leaves orders that nobody can write for a while.
            await self._decisions.reminders.save([d.order for d in batch.decided if d.is_changed], work.session)
            await self._decisions.reminders.add_sent(_reminded(batch.decided), now, work.session)
            work.emit(messages)
            return batch

        return await self._transactions.run(decide)

    def _messages(
        self, decided: Decided, reminder: Reminder, writer: MailWriter, usable: Templates, now: datetime
    ) -> list[OutgoingMessage]:
        """The messages that follow from the decision to send a reminder. Raises UnwritableMailError."""
        order, store, *_ = decided
        mail = mail_command_message(self._topics, self._envelope, writer.command(reminder, order, store, usable))
        if len(mail.value or b"") > MAX_MESSAGE_BYTES:
            raise UnwritableMailError(f"the mail has more than {MAX_MESSAGE_BYTES} bytes")
        event = reminder_requested(reminder, order, now)
        topic = self._topics.name(Topic.EVENTS)
        return [mail, self._envelope.wrap(topic, order.id, "ReminderRequested", event)]


def _reminded(decided: Iterable[Decided]) -> list[str]:
    """The customers of these reminders, as often as each is reminded."""
    return [each.decision.customer_id for each in decided if isinstance(each.decision, Reminder)]
