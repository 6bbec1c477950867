"""Commands: published as messages, answered once the broker has them, or once they have been applied."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final, NotRequired
from uuid import UUID, uuid5

import structlog
from fastapi import Depends, Request
from typing_extensions import TypedDict
from uuid_utils import uuid7

from api.preferences import idempotency_key, wait_seconds
from api.responses import JsonResponse
from api.services import Services
from domain.delivery import OutgoingMessage
from domain.reviews import Outcome
from messaging.envelope import of_command
from storage.database import is_database_away
from storage.outcomes import Answer

_NAMESPACE: Final = UUID("6f1c4f4e-8a4e-5b1c-9d53-0c9d3a1f7be2")
_FIRST_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 0.05
_LAST_LOOK_SECONDS: Final = 1.0


class ItemResult(TypedDict):
    """What became of one item of a command."""

    id: str
    outcome: Outcome
    reason: NotRequired[str]


class CommandAnswer(TypedDict):
    """The answer to a command: "accepted" (it will take effect), or "applied" with a result for each id."""

    commandId: str
    ids: list[str]
    outcome: str
    results: NotRequired[list[ItemResult]]


@dataclass(frozen=True, slots=True)
class Command:
    """One request for a change: its id, how long the client waits (seconds), and whether it may be repeated."""

    id: str
    wait: int | None
    repeatable: bool

    @property
    def remembered_as(self) -> str | None:
        """The command id that its messages carry; none where nobody will ask what became of them."""
        return self.id if self.repeatable or self.wait is not None else None

    @property
    def marks(self) -> dict[str, str]:
        """What the values of its messages carry so that their outcomes are remembered."""
        return {"commandId": self.id} if self.remembered_as else {}

    def item_id(self, index: int) -> str:
        """The id of the item that it makes; the same for a repeat of the command."""
        return str(uuid5(UUID(self.id), str(index))) if self.repeatable else str(uuid7())


async def command_of(request: Request) -> Command:
    """The command that a request is, by its headers. Raises ProblemError."""
    command = _command(request)
    # For every line of the log that this request brings about.
    structlog.contextvars.bind_contextvars(command_id=command.id)
    return command


def _command(request: Request) -> Command:
    wait = wait_seconds(request.headers.getlist("prefer"))
    key = idempotency_key(request.headers.getlist("idempotency-key"))
    if key is None:
        return Command(str(uuid7()), wait, repeatable=False)
    # A space can't be in the key, so nothing else comes to the same name.
    name = f"{request.method} {request.scope['path']} {key}"
    # Of each caller's own: nobody can repeat, or ask after, what another did.
    subject = request.state.caller.subject
    if subject is not None:
        name = f"{name} {subject}"
    return Command(str(uuid5(_NAMESPACE, name)), wait, repeatable=True)


Commanded = Annotated[Command, Depends(command_of)]
"""The command as a parameter of an endpoint."""


async def carry_out(
    services: Services, command: Command, ids: Sequence[str], messages: Sequence[OutgoingMessage]
) -> JsonResponse:
    """Publish the messages of a command about these ids, wait if the client wants that, and answer.

    Raises BrokerAwayError; then some of the messages may have been taken, and the client is told to try again.
    """
    await services.publisher.publish([of_command(message, command.id) for message in messages])
    answer: dict[str, Any] = {"commandId": command.id, "ids": ids, "outcome": "accepted"}
    if command.wait is not None:
        results = await _results(services, command.id, ids, command.wait)
        if len(results) == len(ids):
            answer |= {"outcome": "applied", "results": [results[id] for id in ids]}
            return JsonResponse(answer, 200, {"Preference-Applied": f"wait={command.wait}"})
    return JsonResponse(answer, 202)


async def _results(services: Services, command_id: str, ids: Sequence[str], wait: int) -> Mapping[str, ItemResult]:
    """What is known of the items when all are, or at the end of the wait."""
    results: dict[str, ItemResult] = {}
    end = asyncio.get_running_loop().time() + wait
    with suppress(TimeoutError):
        async with asyncio.timeout_at(end):
            await _collect(services, command_id, ids, results, end)
    if len(results) < len(ids):
        try:
            async with asyncio.timeout(_LAST_LOOK_SECONDS):
                waiting = await services.parking.waiting_for(command_id)
                waiting |= await services.returns.waiting_for(command_id)
        except Exception as error:
            if not (isinstance(error, TimeoutError) or is_database_away(error)):
                raise
        else:
            for id in waiting.intersection(ids).difference(results):
                results[id] = {"id": id, "outcome": Outcome.NOT_FOUND}
    return results


async def _collect(
    services: Services, command_id: str, ids: Sequence[str], results: dict[str, ItemResult], end: float
) -> None:
    """Fill in results as they come, until there is one for every id. A database that is away is waited for."""
    pause = _FIRST_PAUSE
    missing = [(command_id, id) for id in ids]
    loop = asyncio.get_running_loop()
    # The timeout alone isn't enough: where the driver connects, `wait_for` of Python 3.11 can swallow a cancellation.
    while missing and loop.time() < end:
        try:
            answers = await services.outcomes.answers(missing)
        except Exception as error:
            if not is_database_away(error):
                raise
        else:
            results.update({answer.item_id: _result(answer) for answer in answers.values()})
            missing = [key for key in missing if key not in answers]
        if missing:
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 1.5)


def _result(answer: Answer) -> ItemResult:
    result: ItemResult = {"id": answer.item_id, "outcome": answer.outcome}
    if answer.reason:
        result["reason"] = answer.reason
    return result
