"""The meaning of a mail server's answers: about one mail, or about all."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from consumers.mails.smtp import MailDelayedError, MailRefusedError, SmtpConnection, SmtpServer
from tests.support.mail_server import MailServer, running_mail_server
from tests.unit.test_mails_smtp import a_mail, connection_to

ANNA = "anna@example.com"


@pytest.fixture
async def server() -> AsyncIterator[MailServer]:
    async with running_mail_server() as server:
        yield server


async def test_each_answer_of_success_says_that_the_mail_is_taken(server: MailServer) -> None:
    """Else the customer got it again and again."""
    server.answers[ANNA] = ["251 taken", "299 taken as well"]
    connection = connection_to(server)
    for _ in range(3):
        await connection.send(a_mail())
    await connection.close()
    assert (server.attempts[ANNA], server.connections) == (3, 1)


@pytest.mark.parametrize(
    ("refusal", "error"),
    [("550 no such user", MailRefusedError), ("450 later", MailDelayedError)],
    ids=["never", "later"],
)
async def test_an_answer_holds_though_silence_follows(server: MailServer, refusal: str, error: type[Exception]) -> None:
    """Else the mail was tried for ever, as by a server that says nothing."""
    server.refusals[ANNA] = refusal
    server.says["RSET"] = None
    connection = SmtpConnection(SmtpServer("127.0.0.1", server.port, timeout=0.5))
    with pytest.raises(error):
        await connection.send(a_mail())
    await connection.send(a_mail(to="bob@example.com"))
    await connection.close()
    assert server.connections == 2
