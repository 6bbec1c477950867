"""The reminder job: asks for reviews of due orders."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic
from typing import Final

import structlog

from domain.delivery import OutgoingMessage
from domain.reminders import Decided, Reminder, ReviewableOrder, Skip, without_mail
from domain.stores import ReminderSettings
from messaging.decoding import MAX_MESSAGE_BYTES
from messaging.envelope import Envelope
from messaging.events import reminder_requested
from messaging.kafka.publisher import Publisher
from messaging.mails import mail_command_message
from messaging.metrics import REMINDERS, note_wait
from messaging.templates.rendering import in_template_thread
from messaging.topics import Topic, TopicNames
from scheduler.mails import MailWriter, SavedTemplates, UnwritableMailError
from storage.database import Database
from storage.objects import COLLECTION as OBJECTS
from storage.reminders.decisions import ReminderDecisions
from storage.reminders.repository import CUSTOMERS
from storage.repositories import Repositories
from storage.review_tokens import COLLECTION as USED_TOKENS
from storage.shapes import StoredDocumentError
from storage.stores import COLLECTION as STORES
from storage.unit_of_work import Transactions, UnitOfWork, is_unavailable

log = structlog.get_logger()

BATCH: Final = 200
"""Maximum number of orders in a transaction; fewer if they have many lines."""

_PROGRESS: Final = 1_000
"""Orders between two lines of progress in the log."""

_WRITING_S: Final = 5.0
"""Seconds of writing mails in a transaction, which workers abort after twice as long without activity; the next one
continues."""

_WRITTEN_BYTES: Final = 8 * 1024 * 1024
"""Bytes of mails in a transaction, exceeded by at most one mail: until its end all are in memory, here and in MongoDB.
"""

_MOST_UNCHANGED: Final = 10_000
"""Maximum number of orders that a run leaves as they were before it ends as failed: its query, which excludes them,
would become too large. They are damaged, or fail, or another process is faster, which may do the rest."""

_MOST_UNWRITTEN: Final = 1_000
"""Maximum number of orders of a store whose mails can't be written, as with a damaged template, before a run leaves the
store's other orders to a later one."""

_DAMAGED: Final = {
    CUSTOMERS: "customer of an order",
    STORES: "store of an order",
    OBJECTS: "object of an order",
    USED_TOKENS: "used review token of an order",
}
"""Names of damaged documents that an order needs, by collection."""


@dataclass(slots=True)
class RunReport:
    """The result of a run. Failed and damaged orders wait for a later run."""

    reminders: int = 0
    """Number of reminders sent."""
    skipped: Counter[Skip] = field(default_factory=Counter)
    """Number of orders without a reminder, by reason."""
    failed: int = 0
    """Number of orders that met an error of ours; without further orders of a store that had too many."""
    damaged: int = 0
    """Number of orders that can't be read, or that need another document that can't; without further orders of a store
    that was found damaged."""
    is_cut: bool = False
    """True if the run left so many orders as they were that it stopped before the rest."""

    @property
    def is_failure(self) -> bool:
        """True if the run is not done: it was cut short, or had errors of ours and sent nothing."""
        return self.is_cut or (self.failed > 0 and not self.reminders)

    @property
    def orders(self) -> int:
        """The number of orders that were decided on."""
        return self.reminders + self.skipped.total()

    def add(self, batch: "_Batch") -> None:
        """Add the result of a transaction, also to the metric."""
        for each in batch.decided:
            if isinstance(each.decision, Skip):
                self.skipped[each.decision] += 1
                REMINDERS.labels(each.decision.value).inc()
            else:
                self.reminders += 1
                REMINDERS.labels("requested").inc()
        failed = sum(map(len, batch.unwritten.values()))
        self.failed += failed
        self.damaged += len(batch.damaged)
        REMINDERS.labels("failed").inc(failed)
        REMINDERS.labels("damaged").inc(len(batch.damaged))


@dataclass(slots=True)
class _Batch:
    """The result of a transaction."""

    decided: list[Decided] = field(default_factory=list)
    damaged: Mapping[str, StoredDocumentError] = field(default_factory=dict)
    """The errors of orders that are damaged, or that need another document that is, by order id."""
    unwritten: defaultdict[str | None, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The ids of orders whose mails couldn't be written because of an error of ours, by store."""
    messages: list[OutgoingMessage] = field(default_factory=list)
    """The messages of the reminders."""

    def aside(self) -> set[str]:
        """The ids of orders left as they were, which this run would find due again."""
        unchanged = {each.order.id for each in self.decided if not each.is_changed}
        return unchanged.union(*self.unwritten.values(), self.damaged)


class ReminderJob:
    """Sends the due reminders, each once.

    A batch is one transaction: it reads the orders again, decides, and writes the reminder states of the orders, the
    reminders of each customer, and the mails to the outbox. Stores and reviews, which can take long, are looked up
    before it; an order that has changed since then is looked up again by the next batch. If the process is killed
    before the commit, nothing has happened; after it, others publish the outbox, with the same ids. Two jobs at once
    conflict on the orders or on the customers: one of them retries and finds nothing due. Orders that are damaged, that
    need a damaged document, or whose mail fails by an error of ours, wait for a later run without blocking others.
    """

    def __init__(
        self,
        database: Database,
        publisher: Publisher,
        topics: TopicNames,
        *,
        sender: str | None,
        needs_email: bool = False,
        token_keys: Sequence[bytes] = (),
    ) -> None:
        """`sender` is that of mails of stores without an address, None the mailer's; `needs_email`: there is none."""
        self._topics = topics
        self._sender = sender
        self._envelope = Envelope("/plaudit/scheduler")
        self._decisions = ReminderDecisions(database, needs_email=needs_email)
        repositories = Repositories(database, token_keys=token_keys)
        self._templates = repositories.templates
        self._tokens = repositories.review_tokens
        self._transactions = Transactions(database, repositories, publisher.publish)

    async def run(self, now: datetime, may_go_on: Callable[[], bool] = lambda: True) -> RunReport:
        """Send the reminders due at that moment, in batches, until none is left or `may_go_on` returns False."""
        report, logged, aside = RunReport(), 0, set[str]()
        # Each may have very many due orders, which would use up _MOST_UNCHANGED.
        unusable_stores, unwritten = set[object](), defaultdict[str | None, set[str]](set)
        writer = MailWriter(self._sender, await self._tokens.signing_key(), now)
        while not report.is_cut and may_go_on():
            # Read for each batch, so that reminders can be switched off at any time.
            settings = (await self._decisions.stores.general()).reminder
            if not settings.enabled:
                break
            stores = [id for id in await self._decisions.open_stores() if id not in unusable_stores]
            ids = await self._decisions.reminders.due(settings, stores, now, BATCH, without=aside)
            if not ids:
                break
            batch = await self._decide(ids, settings, writer, now)
            report.add(batch)
            for id, error in batch.damaged.items():
                what = _DAMAGED.get(error.collection, "order")
                about = {"order": id, "document": error.id, "collection": error.collection, "reason": error.reason}
                log.error(f"damaged {what}; no reminder until it is repaired", **about)
                if error.collection == STORES:
                    unusable_stores.add(error.id)
            aside |= batch.aside()
            for store, failed in batch.unwritten.items():
                unwritten[store] |= failed
                if len(unwritten[store]) > _MOST_UNWRITTEN:
                    log.error("too many reminders of a store failed; its other orders wait", store=store)
                    unusable_stores.add(store)
                    aside -= unwritten[store]
            report.is_cut = len(aside) > _MOST_UNCHANGED
            if report.orders - logged >= _PROGRESS:
                logged = report.orders
                log.info("sending reminders", sent=report.reminders, skipped=report.skipped.total())
        await self._publish_overdue()
        return report

    async def _publish_overdue(self) -> None:
        """Publish what dead processes owe, if possible: workers try it, too, and this run has done its work."""
        try:
            await self._transactions.outbox.settle_overdue()
        except Exception as error:
            if not is_unavailable(error):
                raise
            note_wait("reminders", error)

    async def _decide(
        self, ids: Sequence[str], settings: ReminderSettings, writer: MailWriter, now: datetime
    ) -> _Batch:
        """Decide on these orders in a transaction, and write the results."""
        known, _ = await self._decisions.reminders.readable(ids)
        looked_up = await self._decisions.look_up(known)
        before = {order.id: order for order in known}
        # Read for each batch, so that a corrected one reaches a run in progress.
        templates = SavedTemplates(self._templates)

        async def decide(work: UnitOfWork) -> _Batch:
            found, unreadable = await self._decisions.reminders.readable(ids, work.session)
            orders = [order for order in found if order == before.get(order.id)]
            decided, damaged = await self._decisions.on(
                orders, settings, now, looked_up=looked_up, session=work.session
            )
            batch = _Batch(damaged=damaged | {str(error.id): error for error in unreadable})
            await self._write_mails(decided, before, batch, writer, templates)
            # All writes come last: a process killed between them and the commit leaves the orders locked for a while.
            changed = [each.order for each in batch.decided if each.is_changed]
            await self._decisions.reminders.save(changed, work.session)
            reminded = [each.decision.customer_id for each in batch.decided if isinstance(each.decision, Reminder)]
            await self._decisions.reminders.add_sent(reminded, now, work.session)
            work.emit(batch.messages)
            return batch

        return await self._transactions.run(decide)

    async def _write_mails(
        self,
        decided: Iterable[Decided],
        before: Mapping[str, ReviewableOrder],
        batch: _Batch,
        writer: MailWriter,
        templates: SavedTemplates,
    ) -> None:
        """Add decisions with their messages to the batch, until it is full. `before` has the orders as they were."""
        deadline, written = monotonic() + _WRITING_S, 0
        failed = set[str | None]()
        for each in decided:
            customer = each.order.customer.id
            if customer in failed:
                # Decided on as if the failed mail had been sent: the next batch decides again.
                continue
            try:
                messages = await self._messages(writer, templates, each)
            except UnwritableMailError as error:
                log.error("reminder failed; its order is skipped", order=each.order.id, error=str(error))
                batch.decided.append(without_mail(each, before[each.order.id].reminders))
                failed.add(customer)
            except Exception as error:
                if is_unavailable(error):
                    raise
                _log_failure(each.order.id, error)
                batch.unwritten[each.order.store_id].add(each.order.id)
                failed.add(customer)
            else:
                batch.decided.append(each)
                batch.messages += messages
                written += sum(len(message.value or b"") for message in messages)
            if monotonic() > deadline or written > _WRITTEN_BYTES:
                break

    async def _messages(
        self, writer: MailWriter, templates: SavedTemplates, decided: Decided
    ) -> Sequence[OutgoingMessage]:
        """The mail command and the event of a reminder; none for a skipped order. Raises UnwritableMailError."""
        order, store, decision, _ = decided
        if isinstance(decision, Skip):
            return ()
        usable = await templates.usable(order, store)
        command = await in_template_thread(writer.command, decision, order, store, usable)
        mail = mail_command_message(self._topics, self._envelope, command)
        if len(mail.value or b"") > MAX_MESSAGE_BYTES:
            raise UnwritableMailError(f"the mail has more than {MAX_MESSAGE_BYTES} bytes")
        event = reminder_requested(decision, order, writer.now)
        topic = self._topics.name(Topic.EVENTS)
        return mail, self._envelope.wrap(topic, order.id, "ReminderRequested", event)


def _log_failure(order_id: str, error: Exception) -> None:
    if isinstance(error, StoredDocumentError):
        about = {"order": order_id, "document": error.id, "collection": error.collection}
        log.error("reminder failed; its order waits for the next run", **about, reason=error.reason)
    else:
        log.exception("reminder failed; its order waits for the next run", order=order_id)
