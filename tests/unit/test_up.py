"""`plaudit up` on systems where it can't run."""

import platform
from pathlib import Path

import pytest

from plaudit.config import Settings
from plaudit.errors import CommandError
from plaudit.http_settings import HttpSettings
from plaudit.processes.up import run_up


async def test_other_systems_than_linux_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    settings = Settings(_env_file=None, data=tmp_path, http=HttpSettings(host="192.0.2.1"))  # can't be bound
    with pytest.raises(CommandError, match=r"runs on Linux only.*docker compose up"):
        await run_up(settings, list[str]().append)
