"""`plaudit mailer`: the mailer as a process."""

import asyncio
import ssl
from datetime import timedelta

import structlog

from consumers.mails.mailer import MailerServices, running_mailer
from consumers.mails.smtp import SmtpServer
from domain.mails import RetryPlan
from messaging.kafka.publisher import Publisher
from plaudit.config import ConfigurationError, Settings
from plaudit.processes.connections import run_process
from plaudit.processes.probes import Probes
from storage.database import Database
from storage.stores import StoreRepository

log = structlog.get_logger()


async def run_mailer(settings: Settings) -> None:
    """Send mails until SIGTERM or SIGINT, then finish those in progress.

    Raises MissingAddressError or ConfigurationError.
    """
    server, sender = mail_server(settings), settings.smtp.checked_sender()
    plan = RetryPlan(first_pause=timedelta(seconds=settings.smtp.retry_pause))

    async def send_mails(database: Database, publisher: Publisher, probes: Probes) -> None:
        if missing := await missing_sender(settings, StoreRepository(database)):
            log.warning("some mails have no sender", advice=missing)
        services = MailerServices(
            connection=settings.kafka_connection(),
            topics=settings.topics,
            database=database,
            publisher=publisher,
            server=server,
            plan=plan,
            sender=sender,
            erasure_keys=settings.privacy.keys(),
        )
        async with running_mailer(services) as sending:
            probes.is_ready = True
            log.info("mailer ready")
            await asyncio.shield(sending)

    await run_process(settings, "mailer", send_mails)


async def missing_sender(settings: Settings, stores: StoreRepository) -> str | None:
    """Advice if mails of stores that take reviews have no sender: none is configured, and a store has no `email`.

    Else None. Raises ConfigurationError for an unusable sender.
    """
    if settings.smtp.checked_sender() is not None:
        return None
    with_address = set(await stores.taking_reviews(with_email=True))
    without = [id for id in await stores.taking_reviews() if id not in with_address]
    if with_address and not without:
        return None
    stores_named = f", or give each store an `email` (missing: {', '.join(without[:5])})" if without else ""
    return f"Set PLAUDIT_SMTP__SENDER, the sender of mails{stores_named}."


def mail_server(settings: Settings) -> SmtpServer:
    """The configured mail server. Raises ConfigurationError."""
    smtp = settings.smtp
    if not smtp.host:
        raise ConfigurationError("PLAUDIT_SMTP__HOST: must be set to the mail server.")
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
