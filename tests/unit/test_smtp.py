import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path

import pytest

from consumers.mail_message import mail_message, mailbox
from consumers.smtp import MailDelayedError, MailRefusedError, ServerAwayError, SmtpConnection, SmtpServer
from domain.mails import RetryPlan
from messaging.decoding import InvalidMessageError
from messaging.mails import MailCommand
from tests.mail_server import PASSWORD, MailServer


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    key, file = folder / "key.pem", folder / "cert.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(file)]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    return file, key


@pytest.fixture
async def plain_server() -> AsyncIterator[MailServer]:
    server = MailServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def tls_server(certificate: tuple[Path, Path]) -> AsyncIterator[MailServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server = MailServer(tls=context)
    await server.start()
    yield server
    await server.stop()


def a_mail(to: str = "anna@example.com", id: str = "1") -> EmailMessage:
    command = MailCommand(id=id, template="T", to=to, from_="shop@example.com", subject="s", text="t", html="<p>t</p>")
    return mail_message(command, datetime(2026, 3, 14, 9, tzinfo=UTC))


async def test_starttls_and_login(tls_server: MailServer, certificate: tuple[Path, Path]) -> None:
    server = SmtpServer(
        "127.0.0.1", tls_server.port, "starttls", "shop", PASSWORD.decode(), tls_ca_file=certificate[0], timeout=5
    )
    connection = SmtpConnection(server)
    await connection.send(a_mail())
    await connection.send(a_mail(id="2"))
    await connection.close()
    assert len(tls_server.mails) == 2
    assert tls_server.connections == 1


async def test_a_wrong_password_is_no_fault_of_the_mail(tls_server: MailServer, certificate: tuple[Path, Path]) -> None:
    server = SmtpServer("127.0.0.1", tls_server.port, "starttls", "shop", "x", tls_ca_file=certificate[0], timeout=5)
    with pytest.raises(ServerAwayError, match="535"):
        await SmtpConnection(server).send(a_mail())


async def test_an_unknown_certificate_is_not_trusted(tls_server: MailServer) -> None:
    server = SmtpServer("127.0.0.1", tls_server.port, "starttls", "shop", PASSWORD.decode(), timeout=5)
    with pytest.raises(ServerAwayError):
        await SmtpConnection(server).send(a_mail())


async def test_without_starttls_nothing_is_sent(plain_server: MailServer) -> None:
    with pytest.raises(ServerAwayError):
        await SmtpConnection(SmtpServer("127.0.0.1", plain_server.port, "starttls", timeout=5)).send(a_mail())
    assert plain_server.mails == []


async def test_tls_from_the_start(certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    mails = MailServer()
    listening = await asyncio.get_running_loop().create_server(mails.protocol, "127.0.0.1", 0, ssl=context)
    try:
        port = listening.sockets[0].getsockname()[1]
        connection = SmtpConnection(SmtpServer("127.0.0.1", port, "tls", tls_ca_file=certificate[0], timeout=5))
        await connection.send(a_mail())
        await connection.close()
    finally:
        listening.close()
    assert len(mails.mails) == 1


async def test_what_answers_mean(plain_server: MailServer) -> None:
    connection = SmtpConnection(SmtpServer("127.0.0.1", plain_server.port, timeout=5))
    plain_server.answers["anna@example.com"] = ["451 later", "554 never", "421 closing"]
    for error in (MailDelayedError, MailRefusedError, ServerAwayError):
        with pytest.raises(error):
            await connection.send(a_mail())
    await connection.send(a_mail())
    await connection.close()
    assert plain_server.connections == 2


async def test_a_silent_server_is_away() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    listening = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    try:
        with pytest.raises(ServerAwayError):
            await SmtpConnection(SmtpServer("127.0.0.1", port, timeout=0.2)).send(a_mail())
    finally:
        listening.close()


@pytest.mark.parametrize(
    "text",
    [
        *("", "anna", "@example.com", "anna@", "a@b.example, c@d.example", "Berg, Anna <a@b.example>"),
        *("a@b.example\nBcc: c@d.example", "a@b.example\x00", "group: a@b.example;", "a b@c.example", "a@b.example>"),
        *("<script> <a@b.example>", "a@b..example", "a@" + "b" * 64 + ".example", "a" * 700 + "@b.example"),
    ],
    ids=lambda text: repr(text)[:30],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        mailbox("to", text)
    assert caught.value.code == "invalid-address"
    assert "example" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "name", "address"),
    [
        ("anna@example.com", "", "anna@example.com"),
        ("Anna Berg <anna+shop@example.com>", "Anna Berg", "anna+shop@example.com"),
        ("Größe <a@müller.example>", "Größe", "a@xn--mller-kva.example"),
        ('"<script>" <a@b.example>', "<script>", "a@b.example"),
        ("ö@b.example", "", "ö@b.example"),
    ],
)
def test_addresses(text: str, name: str, address: str) -> None:
    found = mailbox("to", text)
    assert (found.display_name, found.addr_spec) == (name, address)


def test_a_repeat_has_the_same_message_id() -> None:
    assert a_mail()["Message-ID"] == a_mail()["Message-ID"] != a_mail(id="2")["Message-ID"]


def test_pauses_grow_up_to_a_day() -> None:
    plan, now = RetryPlan(), datetime(2026, 3, 14, tzinfo=UTC)

    def pause(attempts: int, jitter: float = 0) -> timedelta:
        at = plan.next_attempt(now, first=now - timedelta(hours=23), attempts=attempts, jitter=jitter)
        assert at is not None
        return at - now

    assert [pause(n).total_seconds() for n in (1, 2, 3)] == [30, 60, 120]
    assert pause(20) == pause(10**6) == timedelta(hours=1)
    assert pause(1, jitter=1) == timedelta(seconds=15)
    assert plan.next_attempt(now, first=now - timedelta(hours=24), attempts=9, jitter=0) is None
