"""The check of the mail server, and of the sender of mails."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

from consumers.mails.smtp import ServerAwayError, SmtpConnection
from domain.findings import Finding, failed, ok, warn
from plaudit.config import ConfigurationError, Settings
from plaudit.errors import short
from plaudit.processes.mailer import mail_server, missing_sender
from plaudit.tools.servers import ANSWER_S, answer_of
from storage.stores import StoreRepository

_CHECK: Final = "mail server"
_NO_START: Final = "Correct the setting: `plaudit mailer` doesn't start until then."
_NO_SENDER: Final = "Such orders get no reminders; mails requested all the same become dead letters (no-sender)."


async def check_mail(settings: Settings) -> AsyncIterator[Finding]:
    """Connect and log in as the mailer does, without sending; no finding if no server is configured."""
    if not settings.smtp.host:
        return
    try:
        server = mail_server(settings)
    except ConfigurationError as error:
        yield failed(_CHECK, str(error), _NO_START)
        return
    if sender := await _wrong_sender(settings):
        yield sender
    connection = SmtpConnection(replace(server, timeout=min(server.timeout, ANSWER_S)))
    try:
        await connection.greet()
    except ServerAwayError as error:
        login, name = "535: user or password", "501, 504, 550: PLAUDIT_SMTP__HELO_NAME"
        advice = f"Start the server, or correct PLAUDIT_SMTP__* ({login}; {name}). Mails wait until then."
        # The text of a reply may contain the user; that of another error says what is wrong with the address.
        why = error.code if error.code.isdigit() else short(error.__cause__ or error)
        yield failed(_CHECK, f"the mailer can't use {settings.smtp.host}: {why}", advice)
    else:
        yield ok(_CHECK, f"{settings.smtp.host} accepts the mailer")
    finally:
        await connection.close()


async def _wrong_sender(settings: Settings) -> Finding | None:
    """The finding about the sender of mails; None if it is valid, or if that takes MongoDB and it can't be asked."""
    try:
        missing = await answer_of(settings, lambda database: missing_sender(settings, StoreRepository(database)))
    except ConfigurationError as error:
        return failed(_CHECK, str(error), _NO_START)
    return warn(_CHECK, missing, _NO_SENDER) if missing else None
