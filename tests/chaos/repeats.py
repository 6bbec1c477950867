"""Acknowledged HTTP commands, sent again with their keys: nothing changes, and the answer is the documented one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tests.chaos.actors import Actor
from tests.chaos.clients import Answer, Sent
from tests.chaos.model import Json

KEY_REUSED = "idempotency-key-reused"
ATTEMPTS = 40
"""Maximum number of times that a request is repeated until its answer is right: just after a change of the primary, a
facade may read stale data."""
AT_ONCE = 8
"""Number of commands that are repeated at the same time at the end."""


class Repeater(Actor):
    """Repeats commands of all clients, most of them recent ones, and sends other commands with used keys."""

    def actions(self) -> Sequence[tuple[Callable[[], Awaitable[None]], int]]:
        return [(self.repeat_one, 6), (self.reuse_a_key, 1)] if self.world.http.first_sent else [(self.wait, 1)]

    async def wait(self) -> None:
        """Wait until the others have sent something."""
        await asyncio.sleep(0.1)  # polling interval

    async def repeat_one(self) -> None:
        await self.repeat(self.rng.choice(self.world.http.remembered()))

    async def redeliver_all(self) -> None:
        """Repeat all remembered commands at the end, when no newer command can hide an effect."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def repeat(sent: Sent) -> None:
            async with turns:
                await self.repeat(sent)

        await asyncio.gather(*map(repeat, self.world.http.remembered()))

    async def repeat(self, sent: Sent) -> None:
        """Send a command again until its answer is right, at most `ATTEMPTS` times."""
        http, wait = self.world.http, self.rng.choice([None, 5, 5])
        state = await http.send("GET", f"/api/commands/{sent.command}")
        problem: str | None = None
        for _ in range(ATTEMPTS):
            answer = await http.repeat(sent, wait=wait)
            problem = wrong_answer(sent, state, answer, is_awaited=wait is not None)
            # The version before may answer otherwise. Ids don't depend on anything read.
            if problem is None or self.world.is_mixed or not has_same_ids(sent, answer):
                break
            await asyncio.sleep(0.25)  # until it is asked again
        if problem and not self.world.is_mixed:
            self.world.ledger.report_unexpected(f"a repeat of {sent} was answered {problem}")
        self.acknowledge("repeated by HTTP", sent.command)

    async def reuse_a_key(self) -> None:
        """Send another command with the key of one whose outcome is known: it must be refused, and change nothing."""
        sent = self.rng.choice(self.world.http.remembered())
        other = another_body(sent.body)
        state = await self.world.http.send("GET", f"/api/commands/{sent.command}")
        if other is None or not is_final(state):
            return
        for _ in range(ATTEMPTS):
            answer = await self.world.http.repeat(sent._replace(body=other))
            if answer.status == 422 or answer.command != sent.command:
                break
            await asyncio.sleep(0.25)  # until it is asked again
        if answer.body.get("type") != f"/problems/{KEY_REUSED}" and not self.world.is_mixed:
            self.world.ledger.report_unexpected(f"another command with the key of {sent} was answered {answer}")
        self.acknowledge("reused the key of a command", sent.command)


def is_final(state: Answer) -> bool:
    """True if an answer to `GET /api/commands/{id}` has the outcome of all items."""
    return state.status == 200 and state.body["outcome"] != "accepted"


def has_same_ids(sent: Sent, answer: Answer) -> bool:
    """True if an answer has the id of the command and those of its items, or none of both."""
    return answer.command is None or (answer.command, answer.body.get("ids")) == (sent.command, sent.ids)


def wrong_answer(sent: Sent, state: Answer, answer: Answer, *, is_awaited: bool) -> str | None:
    """The answer to a repeat, described if it isn't the documented one.

    `state`: the answer to `GET /api/commands/{id}` before. A command whose outcome wasn't known then may be refused, as
    its subject may have been deleted since.
    """
    if not is_final(state) and answer.command is None and answer.status in (404, 409, 422):
        return None
    if answer.status not in (200, 202, 409):
        return f"{answer}, after {state}"
    if answer.command is None or not has_same_ids(sent, answer):
        return f"{answer}: another command or other ids"
    if not is_final(state) or not is_awaited:
        return None
    results = sorted(answer.body.get("results", ()), key=_id)
    expected = 409 if state.body["outcome"] == "refused" else 200
    if (answer.status, results) != (expected, sorted(state.body["results"], key=_id)):
        return f"{answer}: not as {state}"
    return None


def another_body(body: Any) -> Any:
    """A valid body of another command about the same items; None if there is none."""
    match body:
        case [{"title": _}, *others]:
            return [{**body[0], "title": "By another command"}, *others]
        case [str(), _, *_]:
            return body[:-1]
        case {"ids": [_, _, *_] as ids}:
            return {**{name: value for name, value in body.items() if name != "textHashes"}, "ids": ids[:-1]}
    return None


def _id(result: Json) -> str:
    return str(result["id"])
