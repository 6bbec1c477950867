"""`plaudit mailer`: the mailer as a process."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta

import structlog

from consumers.mails.mailer import running_mailer
from consumers.mails.smtp import SmtpServer
from consumers.subscriptions import GRACE_S
from domain.mails import RetryPlan
from plaudit.config import ConfigurationError, MissingAddressError, Settings
from plaudit.processes.connections import STOP_S, connected, run_unless_stopped, watch_stop_signals
from plaudit.processes.telemetry import serve_telemetry
from plaudit.processes.waiting import prepare_servers

log = structlog.get_logger()


async def run_mailer(settings: Settings) -> None:
    """Send mails until SIGTERM or SIGINT; then finish what is in hand.

    Raises MissingAddressError or ConfigurationError.
    """
    server = _server(settings)
    plan = RetryPlan(first_pause=timedelta(seconds=settings.smtp.retry_pause))
    stop = watch_stop_signals(at_most=STOP_S)
    async with connected(settings) as (database, publisher), AsyncExitStack() as stack:
        probes = stack.enter_context(serve_telemetry(settings, "mailer"))

        async def start() -> asyncio.Task[None]:
            await prepare_servers(settings, database)
            connection, topics = settings.kafka_connection(), settings.topics
            mailer = running_mailer(connection, topics, database, publisher, server, plan)
            return await stack.enter_async_context(mailer)

        # Servers that are away and rebalances can make a start long; a stop doesn't wait for it.
        sending = await run_unless_stopped(start(), stop, again_s=GRACE_S + 1)
        if sending is None:
            return
        probes.is_ready = True
        log.info("mailer ready")
        await asyncio.wait([sending, stop], return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            sending.result()
    log.info("mailer stopped")


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
