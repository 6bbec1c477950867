"""`plaudit mailer`: the mailer as a process."""

import asyncio
import ssl
from datetime import timedelta

import structlog

from consumers.mails.mailer import running_mailer
from consumers.mails.smtp import SmtpServer
from domain.mails import RetryPlan
from messaging.kafka.publisher import Publisher
from plaudit.config import ConfigurationError, MissingAddressError, Settings
from plaudit.processes.connections import run_process
from plaudit.processes.probes import Probes
from storage.database import Database
from storage.stores import StoreRepository

log = structlog.get_logger()


async def run_mailer(settings: Settings) -> None:
    """Send mails until SIGTERM or SIGINT, then finish those in progress.

    Raises MissingAddressError or ConfigurationError.
    """
    server = mail_server(settings)
    plan = RetryPlan(first_pause=timedelta(seconds=settings.smtp.retry_pause))

    async def send_mails(database: Database, publisher: Publisher, probes: Probes) -> None:
        await check_sender(settings, StoreRepository(database))
        connection, topics, sender = settings.kafka_connection(), settings.topics, settings.smtp.sender
        keys = settings.privacy.keys()
        async with running_mailer(connection, topics, database, publisher, server, plan, sender, keys) as sending:
            probes.is_ready = True
            log.info("mailer ready")
            await asyncio.shield(sending)

    await run_process(settings, "mailer", send_mails)


async def check_sender(settings: Settings, stores: StoreRepository) -> None:
    """Raises ConfigurationError if mails could lack a sender: none is configured, and a store has no `email`."""
    if settings.smtp.checked_sender() is not None:
        return
    registered = await stores.all()
    without = [store.id for store in registered if not store.email]
    if without or not registered:
        stores_named = f", or give each store an `email` (missing: {', '.join(without[:5])})" if without else ""
        raise ConfigurationError(f"Set PLAUDIT_SMTP__SENDER, the sender's address of mails{stores_named}.")


def mail_server(settings: Settings) -> SmtpServer:
    """The configured mail server. Raises MissingAddressError or ConfigurationError."""
    smtp = settings.smtp
    if not smtp.host:
        raise MissingAddressError("Set PLAUDIT_SMTP__HOST, the mail server.")
    if smtp.tls_ca_file and smtp.security == "none":
        raise ConfigurationError(
            "PLAUDIT_SMTP__TLS_CA_FILE: has no effect while PLAUDIT_SMTP__SECURITY is none. Set that, or unset this."
        )
    if smtp.password and not smtp.username:
        raise ConfigurationError(
            "PLAUDIT_SMTP__USERNAME: must be set, because PLAUDIT_SMTP__PASSWORD has no effect without it."
        )
    if smtp.tls_ca_file:
        try:
            ssl.create_default_context(cafile=smtp.tls_ca_file)
        except OSError as error:
            why = "not a usable PEM file" if isinstance(error, ssl.SSLError) else error.strerror
            raise ConfigurationError(f"PLAUDIT_SMTP__TLS_CA_FILE: {smtp.tls_ca_file}: {why}.") from error
    if smtp.username and smtp.security == "none":
        log.warning("the password of the mail server is sent unencrypted; set PLAUDIT_SMTP__SECURITY")
    return SmtpServer(
        host=smtp.host,
        port=smtp.port,
        security=smtp.security,
        username=smtp.username,
        password=smtp.password.get_secret_value() if smtp.password else None,
        tls_ca_file=smtp.tls_ca_file,
        timeout=smtp.timeout,
        helo_name=smtp.helo_name,
    )
