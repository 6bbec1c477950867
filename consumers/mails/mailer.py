"""The mailer: mail commands in, mails out."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from consumers.inbox import Inbox
from consumers.mails.consumer import MailConsumer
from consumers.mails.sender import MailSender
from consumers.mails.smtp import SmtpServer
from consumers.subscriptions import start, subscribed_broker
from domain.mails import RetryPlan
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.publisher import Publisher
from messaging.topics import Topic, TopicNames
from storage.database import Database
from storage.mails import MailRepository
from storage.repositories import Repositories
from storage.topics_growth import GrowthRepository
from storage.unit_of_work import Transactions


@dataclass(frozen=True, slots=True)
class MailerServices:
    """The servers of a mailer, and the rules for sending."""

    connection: KafkaConnection
    topics: TopicNames
    database: Database
    publisher: Publisher
    server: SmtpServer
    plan: RetryPlan
    sender: str | None
    """The sender of mails for which neither they nor their store name one."""
    erasure_keys: Sequence[bytes]
    """Recognise erased people, as in Erasures: mails to them are not sent."""


@asynccontextmanager
async def running_mailer(services: MailerServices) -> AsyncIterator[asyncio.Task[None]]:
    """Accept and send mails until the block ends, then finish those in progress. Topics and indexes must exist.

    Yields the sending task, which never ends by itself: if it does, the mailer is broken.
    """
    database, publish, topics = services.database, services.publisher.publish, services.topics
    mails = MailRepository(database)
    repositories = Repositories(database, erasure_keys=services.erasure_keys)
    transactions = Transactions(database, repositories, publish)
    stores, default_sender = repositories.stores, services.sender
    mail_sender = MailSender(transactions, mails, services.server, services.plan, stores, default_sender)
    consumer = MailConsumer(mails, repositories.erasures, mail_sender.wake)
    inbox = Inbox(Topic.MAIL_COMMANDS, consumer, publish)
    broker = subscribed_broker(services.connection, topics, [inbox], group_prefix=topics.prefix)
    sending = asyncio.create_task(mail_sender.run())
    try:
        await start(broker, topics, GrowthRepository(database))
        yield sending
    finally:
        await asyncio.gather(broker.stop(), mail_sender.stop(sending))
