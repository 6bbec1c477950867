"""Tools show their progress on standard error; standard output has only the result."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

import plaudit.tools
from plaudit.config import Settings
from plaudit.server_settings import KafkaSettings
from plaudit.terminal import JsonTerminal, Terminal
from plaudit.tools import privacy_erasure


def test_tools_show_progress_only_on_standard_error() -> None:
    (folder,) = map(Path, plaudit.tools.__path__)
    shown_by = {name for file in folder.rglob("*.py") for name in re.findall(r"(\w+)\.status\(", file.read_text())}
    assert shown_by == {"progress"}


class EndedError(Exception):
    """Raised once the test has seen enough."""


async def test_erasure_without_idempotence_warns_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def reached(*_: Any) -> AsyncIterator[tuple[Any, Any]]:
        yield None, MagicMock()

    monkeypatch.setattr(privacy_erasure, "reached", reached)
    monkeypatch.setattr(privacy_erasure, "PersonalData", MagicMock())
    monkeypatch.setattr(privacy_erasure, "Outbox", MagicMock())
    monkeypatch.setattr(privacy_erasure, "_delete_reviews", MagicMock(side_effect=EndedError))
    settings = Settings(kafka=KafkaSettings(bootstrap_servers="localhost:1", idempotence=False))
    with pytest.raises(EndedError):
        await privacy_erasure.erase_person(settings, JsonTerminal(Terminal()), Terminal(stderr=True), "anna", 1)
    assert "run this again" in capsys.readouterr().err
