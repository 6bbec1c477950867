"""`plaudit mailer`: the mailer as a process."""

from __future__ import annotations

import asyncio
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

log = structlog.get_logger()


async def run_mailer(settings: Settings) -> None:
    """Send mails until SIGTERM or SIGINT; then finish what is in hand.

    Raises MissingAddressError or ConfigurationError.
    """
    server = _server(settings)
    plan = RetryPlan(first_pause=timedelta(seconds=settings.smtp.retry_pause))

    async def send_mails(database: Database, publisher: Publisher, probes: Probes) -> None:
        connection, topics = settings.kafka_connection(), settings.topics
        async with running_mailer(connection, topics, database, publisher, server, plan) as sending:
            probes.is_ready = True
            log.info("mailer ready")
            await asyncio.shield(sending)

    await run_process(settings, "mailer", send_mails)


def _server(settings: Settings) -> SmtpServer:
    smtp = settings.smtp
    if not smtp.host:
        raise MissingAddressError("Set PLAUDIT_SMTP__HOST: the server that mails are sent by.")
    if smtp.tls_ca_file and not smtp.tls_ca_file.is_file():
        raise ConfigurationError("PLAUDIT_SMTP__TLS_CA_FILE: there is no such file.")
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
    )
