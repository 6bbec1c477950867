"""The end of commands."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from plaudit.cli import command_line
from plaudit.cli.command_line import until_terminated


async def test_a_command_that_loses_its_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As PyMongo loses one that comes just when an answer does."""
    monkeypatch.setattr(command_line, "CANCEL_AGAIN_S", 0.01)
    lost: list[asyncio.CancelledError] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            lost.append(error)
        await asyncio.Event().wait()

    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(until_terminated(work()))
    assert len(lost) == 1
