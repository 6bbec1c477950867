"""`plaudit doctor` on the mail server: usable, refusing, unreachable and missing."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from domain.findings import Finding, Level
from plaudit.config import Settings, SmtpSettings
from plaudit.server_settings import MongoSettings
from plaudit.tools.doctor import mail
from plaudit.tools.doctor.mail import check_mail
from tests.support.mail_server import PASSWORD, running_mail_server
from tests.support.waiting import free_port
from tests.unit.test_mails_smtp import certificate, tls_context

__all__ = ["certificate"]


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long enough that a running server responds in time on a busy machine."""
    monkeypatch.setattr(mail, "ANSWER_S", 60.0)


async def run_check(port: int, password: str | None = None, ca: Path | None = None) -> Finding:
    smtp = SmtpSettings(
        host="127.0.0.1",
        port=port,
        sender="shop@example.com",
        security="starttls" if ca else "none",
        username="shop" if password else None,
        password=SecretStr(password) if password else None,
        tls_ca_file=ca,
    )
    (finding,) = [each async for each in check_mail(Settings(smtp=smtp))]
    assert finding.check == "mail server"
    return finding


async def test_mail_server_login(certificate: tuple[Path, Path]) -> None:
    async with running_mail_server(tls=tls_context(certificate)) as server:
        assert (await run_check(server.port, PASSWORD.decode(), certificate[0])).level is Level.OK
        wrong = await run_check(server.port, "pass-of-nobody", certificate[0])
        assert server.mails == []
    assert (wrong.level, wrong.text) == (Level.FAIL, "the mailer can't use 127.0.0.1: 535")
    assert "pass-of-nobody" not in wrong.advice


async def test_refused_greeting_fails() -> None:
    async with running_mail_server(says={"EHLO": "550 unknown name", "HELO": "550 unknown name"}) as server:
        refused = await run_check(server.port)
    assert (refused.level, refused.text) == (Level.FAIL, "the mailer can't use 127.0.0.1: 550")


async def test_unreachable_server_fails() -> None:
    unreachable = await run_check(free_port())
    assert unreachable.level is Level.FAIL
    assert "Connect call failed" in unreachable.text or "refused" in unreachable.text


async def test_settings_without_effect_fail(tmp_path: Path) -> None:
    smtp = SmtpSettings(host="127.0.0.1", tls_ca_file=tmp_path / "ca.pem")
    (finding,) = [each async for each in check_mail(Settings(smtp=smtp))]
    assert (finding.level, "PLAUDIT_SMTP__TLS_CA_FILE" in finding.text) == (Level.FAIL, True)


async def test_invalid_sender_fails() -> None:
    smtp = SmtpSettings(host="127.0.0.1", port=free_port(), sender="not an address")
    # The stores in MongoDB aren't read if a sender is configured.
    settings = Settings(smtp=smtp, mongo=MongoSettings(uri=SecretStr("mongodb://127.0.0.1:1")))
    sender, server = [each async for each in check_mail(settings)]
    assert (sender.level, sender.text) == (Level.FAIL, "PLAUDIT_SMTP__SENDER: must be exactly one mail address.")
    assert "the mailer can't use 127.0.0.1" in server.text


async def test_no_finding_without_server() -> None:
    assert [each async for each in check_mail(Settings(smtp=SmtpSettings()))] == []
