"""The connection to the mail server, and the meaning of its replies."""

import asyncio
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

import aiosmtplib

from consumers.mails.message import Mail

SEND_LIMIT_S: Final = 300.0
"""Maximum seconds for sending one mail, including its claim and the connection."""

_DATA_S: Final = 240.0
"""Seconds to wait for the reply to a mail's content, which gateways scan first. A client that gives up sooner sends the
mail twice (RFC 5321, 4.5.3.2.6)."""

MAILS_PER_CONNECTION: Final = 100
"""Maximum number of mails per connection: servers close long-lived connections."""

_PERMANENT: Final = 500
_NAME_NOT_FULL: Final = 504
_SERVER_CODES: Final = frozenset({421, 502, 503, _NAME_NOT_FULL, 530, 534, 535, 538})
"""Reply codes that any mail would get: the server is closing, doesn't know or expect the command, doesn't accept our
name, or requires another login or more encryption."""

_TEMPORARY_CODE: Final = re.compile(r"(?<![\d.])4\.(\d)\.\d{1,3}(?!\.?\d)")
"""A status code of RFC 3463 for a temporary error, anywhere in a reply; group 1: its subject. Not an IP address."""
_ADDRESS: Final = "1"
_SYSTEM: Final = "3"


class ServerAwayError(Exception):
    """The server can't be reached, or doesn't accept us; `code` is its reply code or the name of the error. `has_mail`:
    it has received some or all of the mail's content."""

    def __init__(self, code: str, *, has_mail: bool = False) -> None:
        super().__init__(code)
        self.code = code
        self._has_mail = has_mail

    @property
    def is_silent(self) -> bool:
        """True if the server didn't reply, so that it has judged neither this mail nor us: retries need no limit. False
        if it has received the content: each attempt may have delivered the mail."""
        return not self.code.isdigit() and not self._has_mail


class MailDelayedError(Exception):
    """The server refuses this mail temporarily; `code` is its reply code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class MailRefusedError(Exception):
    """The server refuses this mail permanently. The message is the server's, and may contain the address."""


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """Address and credentials of a mail server."""

    host: str
    port: int | None = None
    security: Literal["none", "starttls", "tls"] = "none"
    username: str | None = None
    password: str | None = None
    tls_ca_file: Path | None = None
    timeout: float = 20.0
    """Seconds to wait for each of its replies."""
    helo_name: str | None = None
    """Our name in the greeting; None: the full name of this machine."""


class _Client(aiosmtplib.SMTP):
    """The client, with its own timeout for a mail's content. `has_mail`: the server has received some or all of it."""

    has_mail = False

    async def greet(self) -> None:
        """Greet the server, unless the login has done so. Raises SMTPHeloError: `sendmail` would blame it on a mail."""
        if not self.is_ehlo_or_helo_needed:
            return
        try:
            await self.ehlo()
        except aiosmtplib.SMTPHeloError:
            if not self.is_connected:
                raise
            await self.helo()

    async def data(self, message: str | bytes, /, **_: Any) -> aiosmtplib.SMTPResponse:
        """Send the content, once the server asks for it."""
        protocol = self.protocol
        if protocol is None:
            return await super().data(message)
        read_response = protocol.read_response

        async def read_noting_mail(**options: Any) -> aiosmtplib.SMTPResponse:
            if self.has_mail:
                response = await read_response(**options | {"timeout": _DATA_S})
                # Any 2xx accepts the mail (RFC 5321, 4.2.1), but aiosmtplib knows only 250.
                is_accepted = 200 <= response.code < 300
                return response._replace(code=aiosmtplib.SMTPStatus.completed) if is_accepted else response
            response = await read_response(**options)
            # The content is sent after this reply.
            self.has_mail = response.code == aiosmtplib.SMTPStatus.start_input
            return response

        # aiosmtplib sends the command and the content in one call.
        protocol.read_response = read_noting_mail  # type: ignore[assignment, method-assign]
        try:
            return await super().data(message)
        finally:
            del protocol.read_response

    async def rset(self, **options: Any) -> aiosmtplib.SMTPResponse:
        """Reset the envelope. Raises SMTPServerDisconnected also for a timeout: `sendmail` ignores that error, so that
        the preceding reply, about the mail, counts."""
        try:
            return await super().rset(**options)
        except aiosmtplib.SMTPTimeoutError as error:
            raise aiosmtplib.SMTPServerDisconnected(error.message) from error


class SmtpConnection:
    """A connection that is opened for the first mail and reused until it is closed. Not safe for concurrent use."""

    def __init__(self, server: SmtpServer) -> None:
        self._server = server
        self._client: _Client | None = None
        self._sent = 0

    async def send(self, mail: Mail, begun: float | None = None) -> None:
        """Send a mail; returns once the server has accepted it.

        `begun` is the time of the event loop from which SEND_LIMIT_S counts, None for now.

        Raises ServerAwayError, MailDelayedError or MailRefusedError. If the server disconnected or was too slow, it may
        have accepted the mail nevertheless.
        """
        if begun is None:
            begun = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(begun + SEND_LIMIT_S):
                client = await self._open()
                await self._send(client, mail)
        except TimeoutError:
            has_mail = self._client is not None and self._client.has_mail
            self._drop()
            raise ServerAwayError("timeout", has_mail=has_mail) from None
        except BaseException as error:
            if not isinstance(error, MailDelayedError | MailRefusedError):
                self._drop()
            raise
        self._sent += 1

    async def greet(self) -> None:
        """Connect, greet the server and log in, unless that is done. Raises ServerAwayError."""
        await self._open()

    async def close(self) -> None:
        """End the connection, if there is one."""
        client, self._client = self._client, None
        if client is not None:
            try:
                await client.quit(timeout=2)
            except (aiosmtplib.SMTPException, OSError, TimeoutError):
                client.close()

    async def _open(self) -> _Client:
        if self._sent >= MAILS_PER_CONNECTION:
            await self.close()
        if self._client is not None and self._client.is_connected:
            return self._client
        server = self._server
        try:
            client = _Client(
                hostname=server.host,
                port=server.port,
                local_hostname=server.helo_name,
                username=server.username,
                password=(server.password or "") if server.username else None,
                timeout=server.timeout,
                use_tls=server.security == "tls",
                start_tls=server.security == "starttls",
                tls_context=self._tls(),
            )
            await client.connect()
            self._client, self._sent = client, 0
            await client.greet()
        except (aiosmtplib.SMTPException, OSError, TimeoutError, ValueError) as error:
            self._drop()
            raise ServerAwayError(_code_of(error)) from error
        return client

    async def _send(self, client: _Client, mail: Mail) -> None:
        client.has_mail = False
        is_ascii = (mail.sender + mail.recipient).isascii()
        options = [] if is_ascii else ["SMTPUTF8", "BODY=8BITMIME"]
        try:
            await client.sendmail(mail.sender, [mail.recipient], mail.content, mail_options=options)
        except aiosmtplib.SMTPRecipientsRefused as error:
            _raise_judged(error.recipients[0], has_mail=False)
        except aiosmtplib.SMTPResponseException as error:
            _raise_judged(error, has_mail=client.has_mail)
        except aiosmtplib.SMTPNotSupported as error:
            raise MailRefusedError(error.message) from error
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
            raise ServerAwayError(_code_of(error), has_mail=client.has_mail) from error

    def _tls(self) -> ssl.SSLContext | None:
        if self._server.security == "none":
            return None
        return ssl.create_default_context(cafile=self._server.tls_ca_file)

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _raise_judged(error: aiosmtplib.SMTPResponseException, *, has_mail: bool) -> NoReturn:
    if _is_about_us(error):
        raise ServerAwayError(str(error.code), has_mail=has_mail) from error
    if error.code >= _PERMANENT:
        raise MailRefusedError(f"{error.code} {error.message}") from error
    raise MailDelayedError(str(error.code)) from error


def _is_about_us(error: aiosmtplib.SMTPResponseException) -> bool:
    """True if a reply refuses us, and not just this mail."""
    if error.code == _NAME_NOT_FULL and isinstance(error, aiosmtplib.SMTPRecipientRefused):
        # Postfix replies so at this point about our name, and about an address whose domain has no dot.
        return "." in error.recipient.rpartition("@")[2]
    # A negative code stands for an unreadable reply.
    if error.code in _SERVER_CODES or error.code < 0:
        return True
    # Before the recipient is known, a temporary error means that the server is full or busy. Or it refuses this sender,
    # for example because its domain isn't found: mails of other stores needn't wait for that.
    if not isinstance(error, aiosmtplib.SMTPSenderRefused) or error.code >= _PERMANENT:
        return False
    return not _is_about_sender(error.message, error.sender)


def _is_about_sender(answer: str, sender: str) -> bool:
    """True if a reply to `MAIL FROM` concerns the sender's address: by its status code, or because it names it."""
    found = _TEMPORARY_CODE.search(answer)
    subject = found[1] if found else None
    # Postfix also names the address when it can't read one of its own tables: 4.3.
    return subject == _ADDRESS or (subject != _SYSTEM and sender.casefold() in answer.casefold())


def _code_of(error: BaseException) -> str:
    """The part of an error that may be logged: never its text, which may contain an address."""
    return str(error.code) if isinstance(error, aiosmtplib.SMTPResponseException) else type(error).__name__
