"""Replies of a mail server: which concern one mail, and which the whole server."""

from collections.abc import AsyncIterator
from functools import partial

import pytest
from pydantic import ValidationError

from consumers.mails.smtp import MailDelayedError, MailRefusedError, ServerAwayError, SmtpConnection, SmtpServer
from plaudit.config import Settings, SmtpSettings
from plaudit.processes.mailer import mail_server
from tests.support.mail_server import MailServer, running_mail_server
from tests.unit.test_mails_smtp import a_mail, connection_to, send_last

ANNA = "anna@example.com"
SHOP = a_mail().sender


@pytest.fixture
async def server() -> AsyncIterator[MailServer]:
    async with running_mail_server() as server:
        yield server


async def test_each_success_code_means_accepted(server: MailServer) -> None:
    """Otherwise the customer would get the mail again and again."""
    server.answers[ANNA] = ["251 taken", "299 taken as well"]
    connection = connection_to(server)
    for _ in range(3):
        await connection.send(a_mail())
    await connection.close()
    assert (server.attempts[ANNA], server.connections) == (3, 1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("refusal", "error"),
    [("550 no such user", MailRefusedError), ("450 later", MailDelayedError)],
    ids=["never", "later"],
)
async def test_refusal_counts_even_if_server_then_stays_silent(
    server: MailServer, refusal: str, error: type[Exception]
) -> None:
    """Otherwise the mail would be retried for ever, as with a silent server."""
    server.refusals[ANNA] = refusal
    server.says["RSET"] = None
    connection = SmtpConnection(SmtpServer("127.0.0.1", server.port, timeout=5))
    with pytest.raises(error):
        await connection.send(a_mail())
    await send_last(connection, to="bob@example.com")
    assert server.connections == 2


@pytest.mark.parametrize("answer", ["501 invalid name", "550 unknown name", "450 later", "421 closing"])
async def test_refused_helo_name_is_not_the_mails_fault(server: MailServer, answer: str) -> None:
    """Otherwise each waiting mail would become a dead letter at once."""
    server.says |= {"EHLO": answer, "HELO": answer}
    connection = connection_to(server)
    for attempt in (connection.greet, partial(connection.send, a_mail())):
        with pytest.raises(ServerAwayError, match=answer[:3]) as away:
            await attempt()
        assert not away.value.is_silent
        await server.until_left()
    server.says.clear()
    await send_last(connection)
    assert len(server.mails) == 1


async def test_helo_name_of_settings_is_used(server: MailServer) -> None:
    smtp = SmtpSettings(host="127.0.0.1", port=server.port, sender="shop@example.com", helo_name="mail.shop.example")
    await send_last(SmtpConnection(mail_server(Settings(smtp=smtp))))
    assert server.greeted_by == ["mail.shop.example"]


@pytest.mark.parametrize("name", ["mailer 1", "größe.example", "a\r\nRSET", "a" * 256], ids=repr)
def test_invalid_helo_name_is_rejected(name: str) -> None:
    with pytest.raises(ValidationError, match="helo_name"):
        SmtpSettings(helo_name=name)


async def test_server_without_ehlo(server: MailServer) -> None:
    server.says["EHLO"] = "502 no such command"
    await send_last(connection_to(server))
    assert (len(server.mails), server.connections) == (1, 1)


@pytest.mark.parametrize("answer", ["502 no such command", "503 log in first", "504 your name isn't full"])
async def test_errors_independent_of_the_mail_concern_the_server(server: MailServer, answer: str) -> None:
    server.refusals[ANNA] = answer
    with pytest.raises(ServerAwayError, match=answer[:3]):
        await connection_to(server).send(a_mail())


async def test_only_recipient_without_full_domain_is_refused(server: MailServer) -> None:
    """Postfix uses the same code for it as for our own name."""
    server.refusals["anna@till"] = "504 need fully-qualified address"
    connection = connection_to(server)
    with pytest.raises(MailRefusedError):
        await connection.send(a_mail(to="anna@till"))
    await connection.close()


@pytest.mark.parametrize(
    "answer",
    [
        *("450 later", "451 Temporary local problem", "451 4.3.0 local problem", "452 4.3.1 full"),
        *(f"451 4.3.0 <{SHOP}>: Temporary lookup failure", "451 4.7.1 too many mails from 4.1.2.3"),
    ],
)
async def test_server_that_accepts_no_mail_now_is_away(server: MailServer, answer: str) -> None:
    """Otherwise all mails would be tried within minutes, and the retry period of each would start."""
    server.says["MAIL"] = answer
    connection = connection_to(server)
    with pytest.raises(ServerAwayError, match=answer[:3]) as away:
        await connection.send(a_mail())
    assert not away.value.is_silent
    server.says.clear()
    await send_last(connection)
    assert len(server.mails) == 1


async def test_temporary_refusal_of_an_address_concerns_its_mails_only(server: MailServer) -> None:
    """Mails of other stores and to other recipients don't wait."""
    server.refusals[ANNA] = "451 4.7.1 greylisted"
    connection = connection_to(server)
    with pytest.raises(MailDelayedError, match="451"):
        await connection.send(a_mail())
    for answer in (
        "451 4.1.8 domain of sender address does not resolve",
        "451 DNS temporary failure (#4.1.8)",
        f"450 <{SHOP.title()}>: Sender address rejected: Domain not found",
        f"450 4.7.1 <{SHOP}>: Sender address rejected: rate limit for this sender",
    ):
        server.says["MAIL"] = answer
        with pytest.raises(MailDelayedError, match=answer[:3]):
            await connection.send(a_mail())
    await connection.close()
    assert server.connections == 1
