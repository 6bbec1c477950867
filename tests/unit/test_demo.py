"""The tour of `plaudit demo` on a machine that is busy: what isn't decided within a wait is waited for."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from plaudit.cli.command_line import CommandError
from plaudit.cli.terminal import JsonTerminal
from plaudit.tools.demo import _Client

PATH = "/api/return"
WAIT = {"Prefer": "wait=10"}


def _client_of(*states: str) -> httpx.AsyncClient:
    """A client of a service that takes commands, whose outcomes are these, one after the other."""
    left = list(states)

    def answer(request: httpx.Request) -> httpx.Response:
        told: dict[str, Any] = {"commandId": "c", "outcome": "accepted"}
        if request.method == "POST":
            return httpx.Response(202, json={"id": "r", **told, "ids": ["r"]})
        assert request.url.path == "/api/commands/c"
        outcome = left.pop(0)
        results = [] if outcome == "accepted" else [{"id": "r", "outcome": outcome}]
        return httpx.Response(200, json={**told, "outcome": outcome, "results": results})

    return httpx.AsyncClient(base_url="http://service.test", transport=httpx.MockTransport(answer))


@pytest.mark.parametrize(("outcome", "status"), [("applied", 200), ("refused", 409)])
async def test_a_command_that_is_late_is_waited_for(outcome: str, status: int) -> None:
    async with _client_of("accepted", "accepted", outcome) as http:
        service = _Client(http, JsonTerminal())
        answer = await service.send("A return", "POST", PATH, {}, headers=WAIT, expected=status)
    results = [{"id": "r", "outcome": outcome}]
    assert answer == {"id": "r", "commandId": "c", "ids": ["r"], "outcome": outcome, "results": results}
    (step,) = service.steps
    assert (step["status"], step["answer"]) == (status, answer)


async def test_another_outcome_than_expected_ends_it() -> None:
    async with _client_of("refused") as http:
        with pytest.raises(CommandError, match="was answered 409, not 200"):
            await _Client(http, JsonTerminal()).send("A return", "POST", PATH, {}, headers=WAIT)
