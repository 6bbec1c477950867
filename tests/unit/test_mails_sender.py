"""The sender of the configuration, where it is no mail address: nothing that would put it into mails starts."""

from pathlib import Path
from typing import Any

import pytest

from plaudit.cli.terminal import Terminal
from plaudit.config import ConfigurationError, Settings, SmtpSettings
from plaudit.processes import scheduler, up
from plaudit.tools import reminders


class StartedError(Exception):
    """The servers are asked for."""


def start(*_: Any, **__: Any) -> Any:
    raise StartedError


async def run(process: str, settings: Settings) -> None:
    """Run it up to its first look at the servers, at which it raises StartedError."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "run_process", start)
        patch.setattr(reminders, "reached", start)
        patch.setattr(up, "watch_stop_signals", start)
        if process == "scheduler":
            await scheduler.run_scheduler(settings)
        elif process == "reminders run":
            await reminders.run_once(settings, Terminal(quiet=True), None)
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
async def test_a_sender_that_is_no_address(process: str, sender: str | None, is_address: bool, tmp_path: Path) -> None:
    settings = Settings(smtp=SmtpSettings(sender=sender), data=tmp_path)
    with pytest.raises(StartedError if is_address else ConfigurationError) as raised:
        await run(process, settings)
    assert is_address or str(raised.value) == "PLAUDIT_SMTP__SENDER: that is not one mail address."
