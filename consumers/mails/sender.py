"""Send the mails that are due."""

import asyncio
import random
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import Final

import structlog

from consumers.inbox import retry
from consumers.mails.message import mail_message
from consumers.mails.smtp import MailDelayedError, MailRefusedError, ServerAwayError, SmtpConnection, SmtpServer
from domain.mails import RetryPlan
from domain.quantities import quantity
from messaging.dead_letters import dead_letter_message
from messaging.dead_letters_codes import DeadLetterCode
from messaging.decoding import DeadLetter, InvalidMessageError
from messaging.mails import MailCommand, mail_command
from messaging.metrics import MAILS, RETRIES, note_wait
from messaging.server_errors import for_log
from storage.mails import ClaimedMail, MailRepository
from storage.pymongo_internals import cancel_and_wait, side_by_side
from storage.stores import StoreRepository
from storage.unit_of_work import Transactions, UnitOfWork, is_unavailable

log = structlog.get_logger()

CONNECTIONS: Final = 4
"""Number of mails that are sent concurrently, each over its own connection."""

CLAIM: Final = timedelta(minutes=10)
"""Time for which a mailer claims a mail, by MongoDB's clock: twice the limit for sending."""

_STEADY_S: Final = 30.0
"""Seconds for which MongoDB has to answer before mails with expired claims are sent again: mailers that couldn't record
that they had sent them do so first."""

_IDLE_PAUSE_S: Final = 1.0
"""Seconds between queries for due mails while no new one arrives."""

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
"""Maximum seconds between attempts to reach a server that is unavailable; they begin with _FIRST_PAUSE_S."""

_GRACE_S: Final = 5.0
"""Seconds that a mail in progress may take at a stop; an unfinished one is sent again when its claim expires."""


class MailSender:
    """Sends each mail once, as far as SMTP allows.

    A mail is claimed, sent, and then recorded as sent. If the process dies, or the server stops responding, after the
    server has accepted the mail and before that is recorded, the mail is sent again, with the same Message-ID. If only
    MongoDB is unavailable, however long, it is recorded before the mail can be claimed again. Any number of senders may
    run. A mail that the server refuses temporarily is retried by the plan; one that it refuses permanently, or for too
    long, becomes a dead letter. While the server is unavailable, few mails are tried, again and again, without a time
    limit.
    """

    def __init__(
        self,
        transactions: Transactions,
        mails: MailRepository,
        server: SmtpServer,
        plan: RetryPlan,
        stores: StoreRepository,
        default_sender: str | None,
    ) -> None:
        """`default_sender`: that of mails for which neither they nor their store name one."""
        self._transactions = transactions
        self._stores = stores
        self._default_sender = default_sender
        self._mails = mails
        self._server = server
        self._plan = plan
        self._away_at = monotonic()
        self._arrival = asyncio.Event()
        self._stopping = asyncio.Event()
        # Exported from the start, with 0: a series that begins at 1 shows no increase.
        RETRIES.labels("mailer", "smtp")
        for outcome in ("sent", "delayed", "rejected"):
            MAILS.labels(outcome)

    def wake(self) -> None:
        """Look for mails now."""
        self._arrival.set()
        self._arrival.clear()

    async def run(self) -> None:
        """Send mails until `stop` is called."""
        await side_by_side(*(self._send_due() for _ in range(CONNECTIONS)))

    async def stop(self, running: asyncio.Task[None]) -> None:
        """Stop the task of `run`: mails in progress are finished, unless they take longer than _GRACE_S."""
        self._stopping.set()
        self.wake()
        await asyncio.wait([running], timeout=_GRACE_S)
        await cancel_and_wait(running)

    async def _send_due(self) -> None:
        connection, pause = SmtpConnection(self._server), _FIRST_PAUSE_S
        try:
            while not self._stopping.is_set():
                # Before the claim: after a freeze, or a long wait for MongoDB, another mailer may have taken it over.
                begun = asyncio.get_running_loop().time()
                try:
                    now = await self._mails.now()
                    is_steady = monotonic() > self._away_at + _STEADY_S
                    mail = await self._mails.claim(now, now + CLAIM, again=is_steady)
                    if mail is None:
                        await connection.close()
                        await _wait_for(self._arrival, _IDLE_PAUSE_S)
                        continue
                    await self._send(mail, connection, begun)
                    pause = _FIRST_PAUSE_S
                except Exception as error:
                    if not (isinstance(error, ServerAwayError) or is_unavailable(error)):
                        raise
                    if isinstance(error, ServerAwayError):
                        RETRIES.labels("mailer", "smtp").inc()
                        log.warning("retrying: mail server unavailable", error=for_log(error))
                    else:
                        self._away_at = monotonic()
                        note_wait("mailer", error)
                    await _wait_for(self._stopping, pause)
                    pause = min(_LONGEST_PAUSE_S, pause * 2)
        finally:
            await connection.close()

    async def _send(self, mail: ClaimedMail, connection: SmtpConnection, begun: float) -> None:
        """Send a mail, unless too much time has passed since `begun`, and record the result.

        Raises ServerAwayError, and errors of an unavailable MongoDB, after the mail has been rescheduled.
        """
        try:
            command = await self._with_sender(mail_command(mail.record.value or b""))
            await connection.send(mail_message(command, mail.accepted_at), begun)
        except (MailRefusedError, InvalidMessageError, ValueError) as error:
            code = error.code if isinstance(error, InvalidMessageError) else DeadLetterCode.MAIL_REJECTED
            await self._reject(mail, InvalidMessageError(code, str(error)))
        except MailDelayedError as error:
            await self._delay(mail, error.code)
        except ServerAwayError as error:
            await self._delay(mail, error.code, is_answered=not error.is_silent)
            raise
        except Exception as error:
            if is_unavailable(error):
                # The server hasn't judged the mail: it is due at once, or after its claim if this fails, too.
                await self._mails.delay(mail, await self._mails.now(), type(error).__name__)
                raise
            # The error's text might contain personal data.
            log.error("mail failed", id=mail.id, attempts=mail.attempts, error=type(error).__name__)
            await self._delay(mail, type(error).__name__)
        else:
            # However long it takes: an unrecorded mail is sent again when its claim expires.
            await retry("mailer", lambda: self._record(mail))
            MAILS.labels("sent").inc()
            log.info("mail sent", id=mail.id, attempts=mail.attempts)

    async def _with_sender(self, command: MailCommand) -> MailCommand:
        """The command with a sender, if there is one for it."""
        if command.from_ is not None:
            return command
        store = await self._stores.get(command.store_id) if command.store_id else None
        return command.model_copy(update={"from_": (store and store.email) or self._default_sender})

    async def _record(self, mail: ClaimedMail) -> None:
        """Record that a mail was sent. Raises the error of an unavailable MongoDB: none is sent again for a while."""
        try:
            await self._mails.mark_sent(mail, await self._mails.now())
        except Exception:
            self._away_at = monotonic()
            raise

    async def _delay(self, mail: ClaimedMail, code: str, *, is_answered: bool = True) -> None:
        """Reschedule the mail, or reject it if it was refused for too long; time without an answer doesn't count."""
        now, jitter = await self._mails.now(), random.random()  # noqa: S311 - nothing secret
        if is_answered:
            at = self._plan.next_attempt(now, first=mail.first_attempt_at, attempts=mail.attempts, jitter=jitter)
        else:
            at = now + self._plan.pause(mail.attempts, jitter)
        if at is None:
            text = f"The mail could not be sent in {quantity(mail.attempts, 'attempt')}; the last error was {code}"
            await self._reject(mail, InvalidMessageError(DeadLetterCode.MAIL_UNDELIVERABLE, text))
        else:
            log.warning("mail delayed", id=mail.id, attempts=mail.attempts, code=code, until=at.isoformat())
            await self._mails.delay(mail, at, code, is_answered=is_answered)
            MAILS.labels("delayed").inc()

    async def _reject(self, mail: ClaimedMail, error: InvalidMessageError) -> None:
        """Record in one transaction that the mail is rejected, and its dead letter in the outbox; then publish that."""
        now, letter = await self._mails.now(), dead_letter_message(DeadLetter(mail.record, error))

        async def reject(work: UnitOfWork) -> None:
            if await self._mails.reject(mail, now, error.code, work.session):
                work.emit([letter])

        _, owed = await self._transactions.commit(reject)
        MAILS.labels("rejected").inc()
        log.warning("mail rejected", id=mail.id, attempts=mail.attempts, code=error.code)
        await self._transactions.outbox.settle(owed)


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
