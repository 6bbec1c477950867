import asyncio
import json
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from functools import partial
from pathlib import Path

import pytest
from pydantic import ValidationError

from consumers.mails import smtp
from consumers.mails.message import Mail, check_headers, mail_message
from consumers.mails.smtp import MailDelayedError, MailRefusedError, ServerAwayError, SmtpConnection, SmtpServer
from domain.addresses import one_line
from messaging.decoding import InvalidMessageError
from messaging.mails import MailCommand, MailItem, mail_command, mailbox
from plaudit.config import Settings, SmtpSecurity, SmtpSettings
from plaudit.processes.mailer import mail_server
from tests.support.mail_server import PASSWORD, MailServer, running_mail_server
from tests.support.sockets import listening


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    key, file = folder / "key.pem", folder / "cert.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(file)]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    return file, key


def tls_context(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


@pytest.fixture
async def plain_server() -> AsyncIterator[MailServer]:
    async with running_mail_server() as server:
        yield server


@pytest.fixture
async def tls_server(certificate: tuple[Path, Path]) -> AsyncIterator[MailServer]:
    async with running_mail_server(tls=tls_context(certificate)) as server:
        yield server


COMMAND = {
    **{"id": "1", "template": "T", "to": "anna@example.com", "from": "shop@example.com"},
    **{"subject": "s", "text": "t", "html": "<p>t</p>"},
}


def a_mail(**fields: str) -> Mail:
    return mail_message(MailCommand.model_validate(COMMAND | fields), datetime(2026, 3, 14, 9, tzinfo=UTC))


def read(mail: Mail) -> EmailMessage:
    """The mail as the recipient's mail program parses it."""
    message = message_from_bytes(mail.content, policy=default)
    assert isinstance(message, EmailMessage)
    return message


def connection_to(
    server: MailServer, security: SmtpSecurity = "none", password: str | None = None, ca: Path | None = None
) -> SmtpConnection:
    user = "shop" if password else None
    return SmtpConnection(SmtpServer("127.0.0.1", server.port, security, user, password, tls_ca_file=ca, timeout=60))


async def send_last(connection: SmtpConnection, **fields: str) -> None:
    """Send a mail by a connection, and close it."""
    await connection.send(a_mail(**fields))
    await connection.close()


async def test_starttls_and_login(tls_server: MailServer, certificate: tuple[Path, Path]) -> None:
    connection = connection_to(tls_server, "starttls", PASSWORD.decode(), certificate[0])
    await connection.send(a_mail())
    await send_last(connection, id="2")
    assert len(tls_server.mails) == 2
    assert tls_server.connections == 1


@pytest.mark.parametrize(
    ("password", "is_trusted", "reason"),
    [("x", True, "535"), (PASSWORD.decode(), False, "SSLCertVerificationError")],
    ids=["wrong password", "unknown certificate"],
)
async def test_failed_authentication_is_not_the_mails_fault(
    tls_server: MailServer, certificate: tuple[Path, Path], password: str, is_trusted: bool, reason: str
) -> None:
    with pytest.raises(ServerAwayError, match=reason):
        await connection_to(tls_server, "starttls", password, certificate[0] if is_trusted else None).send(a_mail())
    assert tls_server.mails == []


async def test_missing_ca_file_is_not_the_mails_fault(tls_server: MailServer, tmp_path: Path) -> None:
    # This happens while a mounted secret changes; the mail must not become a dead letter.
    connection = connection_to(tls_server, "starttls", PASSWORD.decode(), tmp_path / "gone.pem")
    with pytest.raises(ServerAwayError) as away:
        await connection.send(a_mail())
    assert away.value.is_silent


async def test_nothing_is_sent_without_starttls(plain_server: MailServer) -> None:
    with pytest.raises(ServerAwayError):
        await connection_to(plain_server, "starttls").send(a_mail())
    assert plain_server.mails == []


async def test_implicit_tls(certificate: tuple[Path, Path]) -> None:
    async with running_mail_server(implicit_tls=tls_context(certificate)) as mails:
        await send_last(connection_to(mails, "tls", ca=certificate[0]))
    assert len(mails.mails) == 1


async def test_reply_codes_map_to_errors(plain_server: MailServer) -> None:
    connection = connection_to(plain_server)
    plain_server.answers["anna@example.com"] = ["451 later", "554 never", "421 closing"]
    for error in (MailDelayedError, MailRefusedError, ServerAwayError):
        with pytest.raises(error):
            await connection.send(a_mail())
    await send_last(connection)
    assert plain_server.connections == 2


@pytest.mark.long
async def test_slow_content_scan_is_waited_for(plain_server: MailServer) -> None:
    """The server has the mail by then: after a timeout it would be sent again."""
    plain_server.looks_s = 6.0
    await send_last(SmtpConnection(SmtpServer("127.0.0.1", plain_server.port, timeout=5)))
    assert len(plain_server.mails) == 1


async def test_silence_after_the_content_counts_as_an_attempt(
    plain_server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the retry period elapses, and the mail isn't delivered again for ever."""
    monkeypatch.setattr(smtp, "_DATA_S", 0.2)
    plain_server.looks_s = 60
    connection = connection_to(plain_server)
    with pytest.raises(ServerAwayError) as away:
        await connection.send(a_mail())
    assert away.value.is_silent is False
    monkeypatch.setattr(smtp, "SEND_LIMIT_S", 0.5)
    monkeypatch.setattr(smtp, "_DATA_S", 60)
    with pytest.raises(ServerAwayError, match="timeout") as away:
        await connection.send(a_mail())
    assert away.value.is_silent is False


@pytest.mark.parametrize(
    ("to_data", "to_content", "is_silent"),
    [
        (None, None, True),
        (b"nonsense\r\n", None, True),
        (b"354 go ahead\r\n", None, False),
        (b"354 go ahead\r\n", b"nonsense\r\n", False),
    ],
    ids=["silent", "nonsense", "silent behind the content", "nonsense behind the content"],
)
async def test_only_server_that_asked_for_content_can_have_it(
    monkeypatch: pytest.MonkeyPatch, to_data: bytes | None, to_content: bytes | None, is_silent: bool
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers = {b"DATA": to_data, b".": to_content}
        writer.write(b"220 here\r\n")
        while line := await reader.readline():
            is_text = line[:4] not in (b"EHLO", b"MAIL", b"RCPT", b"RSET", b"QUIT")
            if answer := answers.get(line.strip()) if is_text else b"250 fine\r\n":
                writer.write(answer)
        writer.close()

    # Until the server asks for the content, the connection's timeout applies.
    monkeypatch.setattr(smtp, "_DATA_S", 0.2 if to_data else 60)
    async with listening(serve) as port:
        with pytest.raises(ServerAwayError) as away:
            await SmtpConnection(SmtpServer("127.0.0.1", port, timeout=60 if to_data else 0.2)).send(a_mail())
    assert away.value.is_silent is is_silent


async def test_silent_server_is_away() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with listening(silent) as port:
        with pytest.raises(ServerAwayError) as away:
            await SmtpConnection(SmtpServer("127.0.0.1", port, timeout=0.2)).send(a_mail())
    assert away.value.is_silent


@pytest.mark.parametrize(
    "text",
    [
        *("", "anna", "@example.com", "anna@", "a@b.example, c@d.example", "Berg, Anna <a@b.example>"),
        *("a@b.example\nBcc: c@d.example", "a@b.example\x00", "group: a@b.example;", "a b@c.example", "a@b.example>"),
        *("<script> <a@b.example>", "a@b..example", "a@" + "b" * 64 + ".example", "a" * 700 + "@b.example"),
    ],
    ids=lambda text: repr(text)[:30],
)
def test_invalid_addresses_are_rejected(text: str) -> None:
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
def test_valid_addresses(text: str, name: str, address: str) -> None:
    found = mailbox("to", text)
    assert (found.display_name, found.addr_spec) == (name, address)


def test_same_mail_has_same_message_id() -> None:
    first, again, other = (read(mail)["Message-ID"] for mail in (a_mail(), a_mail(), a_mail(id="2")))
    assert first == again != other


def encoded(text: str) -> str:
    """An encoded word (RFC 2047)."""
    return "=?utf-8?q?" + "".join(f"={byte:02X}" for byte in text.encode()) + "?="


BREAKS = "Anna\r\nReply-To: evil@example.com\r\n\r\nAnother body"
INJECTIONS = [
    *(BREAKS, encoded(BREAKS), encoded(encoded(BREAKS)), f"Hi {encoded(BREAKS)} and more", BREAKS.replace("\r", "")),
    *(BREAKS.replace("\n", ""), BREAKS.replace("\r\n", "\u2028"), encoded("x" * 60 + BREAKS), "=?utf-8?b?" + "A" * 99),
    encoded("Ann\r\nX: y"),  # short enough to be written as it is
    *("é" * 99 + encoded(BREAKS), "\x00\x1b[2J", "--===============1==\r\nContent-Type: text/html\r\n\r\nbody"),
]


@pytest.mark.parametrize("text", INJECTIONS, ids=lambda text: repr(text)[:30])
@pytest.mark.parametrize("field", ["subject", "to", "from", "text", "html"])
def test_no_field_injects_headers_or_a_body(field: str, text: str) -> None:
    given = {field: text}
    if field in ("to", "from"):
        given = {field: f"{encoded(text) if '=?' in text else encoded(encoded(text))} <anna@example.com>"}
    mail = None
    with suppress(InvalidMessageError):  # for an invalid address
        mail = a_mail(**given)
    if mail is None:
        assert field in ("to", "from")
        return
    assert (mail.sender, mail.recipient) == (
        "anna@example.com" if field == "from" else "shop@example.com",
        "anna@example.com",
    )
    lines = mail.content.replace(b"\r\n", b"")
    assert b"\r" not in lines
    assert b"\n" not in lines
    message = read(mail)
    kinds = ["multipart/alternative", "text/plain", "text/html"]
    assert [part.get_content_type() for part in message.walk()] == kinds
    assert set(message.keys()) == {
        *("Message-ID", "Date", "From", "To", "Subject", "Auto-Submitted", "Content-Type", "MIME-Version"),
    }
    assert len(message.keys()) == 8
    if field in ("to", "from"):
        # Python's parser puts spaces between the encoded words of one name.
        names = message[field].addresses[0].display_name, mailbox(field, given[field]).display_name
        assert names[0].replace(" ", "") == names[1].replace(" ", "")
    if field == "subject":
        assert message["Subject"] == one_line(text)
    if field == "text":
        body = message.get_body(("plain",))
        assert body is not None
        assert str(body.get_content()).splitlines() == text.splitlines()


@pytest.mark.parametrize("subject", ["x" * 3_000, "See " + "x" * 250, "word " * 600 + "end", "é" * 3_000])
def test_lines_of_headers_are_short(subject: str) -> None:
    mail = a_mail(subject=subject)
    assert max(map(len, mail.content.split(b"\r\n"))) <= 78
    assert b"Subject: \r\n" not in mail.content
    assert read(mail)["Subject"] == subject


def test_mail_with_unexpected_headers_is_refused() -> None:
    content = a_mail().content
    expected = [part.keys() for part in message_from_bytes(content).walk()]
    check_headers(content, expected)
    for where in (b"Subject:", b"Content-Transfer-Encoding:"):
        with pytest.raises(InvalidMessageError) as caught:
            check_headers(content.replace(where, b"Reply-To: evil@example.com\r\n" + where), expected)
        assert caught.value.code == "invalid-mail"


def test_non_ascii_address_is_written_in_utf8() -> None:
    mail = a_mail(to="ö@b.example")
    assert mail.recipient == "ö@b.example"
    assert "To: ö@b.example\r\n".encode() in mail.content


@pytest.mark.parametrize("field", ["languageCode", "storeId", "orderId", "orderNumber", "customerId", "items"])
def test_null_equals_missing_in_mail_command(field: str) -> None:
    assert mail_command(json.dumps({**COMMAND, field: None}).encode()) == mail_command(json.dumps(COMMAND).encode())
    items = [{"productId": "p", "name": None}, {"productId": "q"}]
    assert mail_command(json.dumps({**COMMAND, "items": items}).encode()).items == (
        MailItem(product_id="p"),
        MailItem(product_id="q"),
    )


# Replies of a mail server: which concern one mail, and which the whole server.

ANNA, SHOP = "anna@example.com", a_mail().sender


async def test_each_success_code_means_accepted(plain_server: MailServer) -> None:
    """Otherwise the customer would get the mail again and again."""
    plain_server.answers[ANNA] = ["251 taken", "299 taken as well"]
    connection = connection_to(plain_server)
    for _ in range(3):
        await connection.send(a_mail())
    await connection.close()
    assert (plain_server.attempts[ANNA], plain_server.connections) == (3, 1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("refusal", "error"),
    [("550 no such user", MailRefusedError), ("450 later", MailDelayedError)],
    ids=["never", "later"],
)
async def test_refusal_counts_even_if_server_then_stays_silent(
    plain_server: MailServer, refusal: str, error: type[Exception]
) -> None:
    """Otherwise the mail would be retried for ever, as with a silent server."""
    plain_server.refusals[ANNA] = refusal
    plain_server.says["RSET"] = None
    connection = SmtpConnection(SmtpServer("127.0.0.1", plain_server.port, timeout=5))
    with pytest.raises(error):
        await connection.send(a_mail())
    await send_last(connection, to="bob@example.com")
    assert plain_server.connections == 2


@pytest.mark.parametrize("answer", ["501 invalid name", "550 unknown name", "450 later", "421 closing"])
async def test_refused_helo_name_is_not_the_mails_fault(plain_server: MailServer, answer: str) -> None:
    """Otherwise each waiting mail would become a dead letter at once."""
    plain_server.says |= {"EHLO": answer, "HELO": answer}
    connection = connection_to(plain_server)
    for attempt in (connection.greet, partial(connection.send, a_mail())):
        with pytest.raises(ServerAwayError, match=answer[:3]) as away:
            await attempt()
        assert not away.value.is_silent
        await plain_server.until_left()
    plain_server.says.clear()
    await send_last(connection)
    assert len(plain_server.mails) == 1


async def test_helo_name_of_settings_is_used(plain_server: MailServer) -> None:
    smtp = SmtpSettings(
        host="127.0.0.1", port=plain_server.port, sender="shop@example.com", helo_name="mail.shop.example"
    )
    await send_last(SmtpConnection(mail_server(Settings(smtp=smtp))))
    assert plain_server.greeted_by == ["mail.shop.example"]


@pytest.mark.parametrize("name", ["mailer 1", "größe.example", "a\r\nRSET", "a" * 256], ids=repr)
def test_invalid_helo_name_is_rejected(name: str) -> None:
    with pytest.raises(ValidationError, match="helo_name"):
        SmtpSettings(helo_name=name)


async def test_server_without_ehlo(plain_server: MailServer) -> None:
    plain_server.says["EHLO"] = "502 no such command"
    await send_last(connection_to(plain_server))
    assert (len(plain_server.mails), plain_server.connections) == (1, 1)


@pytest.mark.parametrize("answer", ["502 no such command", "503 log in first", "504 your name isn't full"])
async def test_errors_independent_of_the_mail_concern_the_server(plain_server: MailServer, answer: str) -> None:
    plain_server.refusals[ANNA] = answer
    with pytest.raises(ServerAwayError, match=answer[:3]):
        await connection_to(plain_server).send(a_mail())


async def test_only_recipient_without_full_domain_is_refused(plain_server: MailServer) -> None:
    """Postfix uses the same code for it as for our own name."""
    plain_server.refusals["anna@till"] = "504 need fully-qualified address"
    connection = connection_to(plain_server)
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
async def test_server_that_accepts_no_mail_now_is_away(plain_server: MailServer, answer: str) -> None:
    """Otherwise all mails would be tried within minutes, and the retry period of each would start."""
    plain_server.says["MAIL"] = answer
    connection = connection_to(plain_server)
    with pytest.raises(ServerAwayError, match=answer[:3]) as away:
        await connection.send(a_mail())
    assert not away.value.is_silent
    plain_server.says.clear()
    await send_last(connection)
    assert len(plain_server.mails) == 1


async def test_temporary_refusal_of_an_address_concerns_its_mails_only(plain_server: MailServer) -> None:
    """Mails of other stores and to other recipients don't wait."""
    plain_server.refusals[ANNA] = "451 4.7.1 greylisted"
    connection = connection_to(plain_server)
    with pytest.raises(MailDelayedError, match="451"):
        await connection.send(a_mail())
    for answer in (
        "451 4.1.8 domain of sender address does not resolve",
        "451 DNS temporary failure (#4.1.8)",
        f"450 <{SHOP.title()}>: Sender address rejected: Domain not found",
        f"450 4.7.1 <{SHOP}>: Sender address rejected: rate limit for this sender",
    ):
        plain_server.says["MAIL"] = answer
        with pytest.raises(MailDelayedError, match=answer[:3]):
            await connection.send(a_mail())
    await connection.close()
    assert plain_server.connections == 1
