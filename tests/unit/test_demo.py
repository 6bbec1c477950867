"""`plaudit demo` against a slow or protected service."""

from typing import Any

import httpx
import pytest

from plaudit.errors import CommandError
from plaudit.terminal import Terminal
from plaudit.tools import demo

ACCEPTED = {"commandId": "c", "ids": ["r"], "outcome": "accepted"}


async def send_command(outcome: str, expected: int) -> tuple[Any, str]:
    """The response to a command whose outcome is known at the third poll, and the printed output."""
    answers = iter([httpx.Response(404, json={}), httpx.Response(200, json={**ACCEPTED, "results": []})])

    def serve(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            return httpx.Response(202, json=ACCEPTED)
        assert request.url.path == "/api/commands/c"
        return next(answers, httpx.Response(200, json={"commandId": "c", "outcome": outcome, "results": [{"id": "r"}]}))

    out = Terminal()
    async with httpx.AsyncClient(transport=httpx.MockTransport(serve), base_url="http://plaudit.test") as http:
        with out.capture() as printed:
            headers = {"Prefer": "wait=1"}
            answer = await demo._Client(http, out).send(
                "Title", "POST", "/api/x", [], headers=headers, expected=expected
            )
    return answer, printed.get()


@pytest.mark.parametrize(("outcome", "status"), [("applied", 200), ("partial", 200), ("refused", 409)])
async def test_slow_command_is_polled(outcome: str, status: int) -> None:
    answer, printed = await send_command(outcome, status)
    assert answer == {**ACCEPTED, "outcome": outcome, "results": [{"id": "r"}]}
    assert "-> 202" in printed
    assert "GET /api/commands/c\n-> {" in printed


async def test_unexpected_outcome_is_an_error() -> None:
    with pytest.raises(CommandError, match="returned 409 instead of 200"):
        await send_command("refused", 200)


async def test_protected_service_is_an_error() -> None:
    def serve(_: httpx.Request) -> httpx.Response:
        return httpx.Response(401, json={"title": "Unauthorized"})

    async with httpx.AsyncClient(transport=httpx.MockTransport(serve), base_url="http://plaudit.test") as http:
        with pytest.raises(CommandError, match="PLAUDIT_AUTH__MODE=none"):
            await demo._Client(http, Terminal(quiet=True)).send("Title", "POST", "/api/x", [])
