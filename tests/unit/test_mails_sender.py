"""A configured sender that is no mail address stops each process that would use it from starting."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from plaudit.config import ConfigurationError, Settings, SmtpSettings
from plaudit.processes import scheduler, up
from plaudit.terminal import Terminal
from plaudit.tools import reminders


class StartedError(Exception):
    """The process reached its first access to the servers."""


def start(*_: Any, **__: Any) -> Any:
    raise StartedError


async def run(process: str, settings: Settings) -> None:
    """Run it up to its first access to the servers, where it raises StartedError."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "run_process", start)
        patch.setattr(reminders, "reached", start)
        patch.setattr(up, "watch_stop_signals", start)
        if process == "scheduler":
            await scheduler.run_scheduler(settings)
        elif process == "reminders run":
            await reminders.run_once(settings, Terminal(quiet=True), Terminal(quiet=True), None)
        else:
            await up.run_up(settings, list[str]().append)


@pytest.mark.parametrize("process", ["scheduler", "reminders run", "up"])
@pytest.mark.parametrize(
    ("sender", "is_address"),
    [
        *((None, True), ("shop@example.org", True), ('"Shop, Inc." <shop@example.org>', True)),
        *(("Shop, Inc. <shop@example.org>", False), (" ", False), ("", False), ("shop", False)),
    ],
)
async def test_invalid_sender_is_rejected(process: str, sender: str | None, is_address: bool, tmp_path: Path) -> None:
    settings = Settings(smtp=SmtpSettings(sender=sender), data=tmp_path)
    with pytest.raises(StartedError if is_address else ConfigurationError) as raised:
        await run(process, settings)
    assert is_address or str(raised.value) == "PLAUDIT_SMTP__SENDER: must be exactly one mail address."


async def test_up_rejects_unusable_smtp_settings(tmp_path: Path) -> None:
    nameless = SmtpSettings(host="mail.example", password=SecretStr("pass-of-mail"))
    with pytest.raises(ConfigurationError, match="PLAUDIT_SMTP__USERNAME"):
        await run("up", Settings(smtp=nameless, data=tmp_path))
    unchecked = SmtpSettings(host="mail.example", security="tls", tls_ca_file=tmp_path / "missing.pem")
    with pytest.raises(ConfigurationError, match=r"PLAUDIT_SMTP__TLS_CA_FILE: .*missing\.pem"):
        await run("up", Settings(smtp=unchecked, data=tmp_path))
