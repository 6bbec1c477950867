"""A mail server in the event loop of the test."""

import asyncio
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from .waiting import eventually, free_port

PASSWORD = b"correct horse"
OK = "250 OK"


@dataclass
class MailServer:
    """Stores received mails. `answers` are replies to the next mails for an address, instead of accepting them."""

    tls: ssl.SSLContext | None = None
    implicit_tls: ssl.SSLContext | None = None
    port: int = field(default_factory=free_port)
    mails: list[EmailMessage] = field(default_factory=list)
    answers: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    refusals: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    connections: int = 0
    greeted_by: list[str] = field(default_factory=list)
    """Host names in clients' greetings."""
    looks_s: float = 0
    """Seconds between storing a mail and replying."""
    says: dict[str, str | None] = field(default_factory=dict)
    """Reply to a command (EHLO, HELO, MAIL, RSET) by its name; None: no reply."""
    open: set[SMTP] = field(default_factory=set)
    _server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen, on the same port each time."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self.protocol, "127.0.0.1", self.port, ssl=self.implicit_tls)

    async def stop(self) -> None:
        """Stop listening; open connections stay."""
        assert self._server is not None
        self._server.close()

    async def until_left(self) -> None:
        """Wait until no connection is open."""
        await eventually(lambda: not self.open)

    def to(self, address: str) -> list[EmailMessage]:
        """The mails that an address received."""
        return [mail for mail in self.mails if mail["To"].addresses[0].addr_spec == address]

    async def handle_EHLO(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, name: str, responses: list[str]
    ) -> list[str]:
        if self.says.get("EHLO", OK) != OK:
            return [await self._answer("EHLO")]
        session.host_name = name
        self.greeted_by.append(name)
        return responses

    async def handle_HELO(self, server: SMTP, session: Session, envelope: Envelope, name: str) -> str:  # noqa: N802
        session.host_name = name
        return await self._answer("HELO")

    async def handle_MAIL(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return await self._answer("MAIL")

    async def handle_RSET(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        return await self._answer("RSET")

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if refusal := self.refusals.get(address):
            self.attempts[address] += 1
            return refusal
        envelope.rcpt_tos.append(address)
        return OK

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        (address,) = envelope.rcpt_tos
        self.attempts[address] += 1
        if self.answers[address]:
            return self.answers[address].pop(0)
        mail = message_from_bytes(envelope.content or b"", policy=default)  # type: ignore[arg-type]
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        await asyncio.sleep(self.looks_s)
        return OK

    async def _answer(self, command: str) -> str:
        answer = self.says.get(command, OK)
        if answer is None:
            await asyncio.Event().wait()  # until the client disconnects
        return answer or OK

    def protocol(self) -> SMTP:
        """The protocol of a new connection."""
        self.connections += 1
        with_login: dict[str, Any] = {
            "tls_context": self.tls,
            "require_starttls": True,
            "auth_required": True,
            "authenticator": _authenticated,
        }
        return _Connection(self, enable_SMTPUTF8=True, **(with_login if self.tls else {}))


class _Connection(SMTP):
    """A connection that its server tracks while it is open."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.event_handler.open.add(self)
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.event_handler.open.discard(self)
        super().connection_lost(error)


@asynccontextmanager
async def running_mail_server(**options: Any) -> AsyncIterator[MailServer]:
    server = MailServer(**options)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def _authenticated(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object) -> AuthResult:
    return AuthResult(success=isinstance(data, LoginPassword) and data.password == PASSWORD, handled=False)
