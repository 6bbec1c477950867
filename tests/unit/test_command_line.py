"""The end of commands."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import uvloop

from plaudit.cli import command_line
from plaudit.cli.command_line import until_terminated


@pytest.fixture
async def handlers() -> AsyncIterator[None]:
    """The handlers of signals go with the test."""
    yield
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().remove_signal_handler(number)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_command_that_loses_its_cancellation_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """As PyMongo loses one that comes just when an answer does."""
    monkeypatch.setattr(command_line, "CANCEL_AGAIN_S", 0.01)
    lost: list[asyncio.CancelledError] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            lost.append(error)
        await asyncio.Event().wait()

    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(until_terminated(work()))
    assert len(lost) == 1


def test_the_second_ctrl_c_ends_a_command_at_once() -> None:
    async def work() -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)  # it ends by the signal, or the test fails by its time
        raise AssertionError("The command went on")

    with pytest.raises(KeyboardInterrupt):
        uvloop.run(until_terminated(work()))
