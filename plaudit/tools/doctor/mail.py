"""The check of the mail server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

from consumers.mails.smtp import ServerAwayError, SmtpConnection
from domain.findings import Finding, failed, ok
from plaudit.config import ConfigurationError, Settings
from plaudit.processes.mailer import mail_server

_CHECK: Final = "mail server"
_ANSWER_S: Final = 4.0


async def check_mail(settings: Settings) -> AsyncIterator[Finding]:
    """Connect and log in as the mailer does, and send nothing; no finding where no server is configured."""
    if not settings.smtp.host:
        return
    try:
        server = mail_server(settings)
    except ConfigurationError as error:
        yield failed(_CHECK, str(error), "Correct it: `plaudit mailer` doesn't start with it.")
        return
    connection = SmtpConnection(replace(server, timeout=min(server.timeout, _ANSWER_S)))
    try:
        await connection.greet()
    except ServerAwayError as error:
        advice = "Start it, or correct PLAUDIT_SMTP__* (535: user or password). Mails wait until then."
        yield failed(_CHECK, f"{settings.smtp.host} doesn't let the mailer in: {error.code}", advice)
    else:
        yield ok(_CHECK, f"{settings.smtp.host} lets the mailer in")
    finally:
        await connection.close()
