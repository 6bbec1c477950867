"""Commands: published as messages, answered once the broker has them, or once they have been applied."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, NotRequired
from uuid import UUID, uuid5

import structlog
from fastapi import Depends, Request
from starlette.responses import Response
from typing_extensions import TypedDict
from uuid_utils import uuid7

from api.services import Services
from api.web.documents import problems
from api.web.in_hand import LaterResponse
from api.web.preferences import idempotency_key, wait_seconds
from api.web.problems import ProblemKind
from api.web.responses import JsonResponse
from domain.delivery import OutgoingMessage
from domain.reviews import Outcome
from messaging.envelope import of_command
from storage.database import is_database_away
from storage.outcomes import Answer

_NAMESPACE: Final = UUID("6f1c4f4e-8a4e-5b1c-9d53-0c9d3a1f7be2")
_LAST_LOOK_SECONDS: Final = 1.0
_NO_PLACE: Final = (
    "The command will take effect. It wasn't waited for: as many requests wait already as may. Repeat it later with "
    "the same Idempotency-Key to hear what became of it, or have fewer wait at a time."
)

_HEADERS: Final = [
    {
        "name": "Prefer",
        "in": "header",
        "schema": {"type": "string"},
        "description": "`wait=N` (RFC 7240): answer 200 once the command has been applied, after N seconds at most",
        "example": "wait=5",
    },
    {
        "name": "Idempotency-Key",
        "in": "header",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        "description": "The same key gives the same ids, so a repeated request changes nothing",
    },
]


class ItemResult(TypedDict):
    """The outcome of one item of a command."""

    id: str
    outcome: Outcome
    reason: NotRequired[str]


class CommandAnswer(TypedDict):
    """The answer to a command: "accepted" (it will take effect), or "applied" with a result for each id. `reason`: why
    nobody waited, where the client wanted that. `id`: that of the return, where the command is about one."""

    id: NotRequired[str]
    commandId: str
    ids: list[str]
    outcome: str
    reason: NotRequired[str]
    results: NotRequired[list[ItemResult]]


@dataclass(frozen=True, slots=True)
class Command:
    """One request for a change: its id, how long the client waits (seconds), whether it may be repeated, and the client
    whom its waits are counted for. `names_id`: it is about one item, whose id stands by itself in the answer."""

    id: str
    wait: int | None
    repeatable: bool
    client: str
    names_id: bool = False

    @property
    def remembered_as(self) -> str | None:
        """The command id that its messages carry; None where no outcome will be asked for."""
        return self.id if self.repeatable or self.wait is not None else None

    @property
    def marks(self) -> dict[str, str]:
        """The fields that its messages carry so that their outcomes are stored."""
        return {"commandId": self.id} if self.remembered_as else {}

    def item_id(self, index: int) -> str:
        """The id of the item that it makes; the same for a repeat of the command."""
        return str(uuid5(UUID(self.id), str(index))) if self.repeatable else str(uuid7())


class _CommandOf:
    """The command that a request is, by its headers. Raises ProblemError."""

    openapi: Final = {"parameters": _HEADERS}

    async def __call__(self, request: Request) -> Command:
        command = _command(request)
        # For every line of the log that this request brings about.
        structlog.contextvars.bind_contextvars(command_id=command.id)
        return command


def _command(request: Request) -> Command:
    wait = wait_seconds(request.headers.getlist("prefer"))
    key = idempotency_key(request.headers.getlist("idempotency-key"))
    # By caller: a caller can't repeat another's command, nor read its outcome.
    subject = request.state.caller.subject
    client = f"subject {subject}" if subject is not None else f"address {request.client.host if request.client else ''}"
    if key is None:
        return Command(str(uuid7()), wait, repeatable=False, client=client)
    # A space can't be in the key, so nothing else comes to the same name.
    name = f"{request.method} {request.scope['path']} {key}"
    if subject is not None:
        name = f"{name} {subject}"
    return Command(str(uuid5(_NAMESPACE, name)), wait, repeatable=True, client=client)


Commanded = Annotated[Command, Depends(_CommandOf())]
"""The command as a parameter of an endpoint."""


def command_answers(*kinds: ProblemKind) -> dict[str, Any]:
    """The options of a command's route: it answers 202, 200 once it has been applied, or one of these problems."""
    answer = {"model": CommandAnswer}
    return {"status_code": 202, "response_model": CommandAnswer, "responses": {200: answer, **problems(*kinds)}}


async def carry_out(
    services: Services,
    command: Command,
    ids: Sequence[str],
    messages: Sequence[OutgoingMessage],
    *,
    done: Callable[[], None] = lambda: None,
) -> Response:
    """Publish the messages of a command about these ids, wait if the client wants that, and answer. `done` is called
    before the answer is given.

    Raises BrokerAwayError; then some of the messages may have been taken, and the client is told to try again.
    """
    await services.publisher.publish([of_command(message, command.id) for message in messages])
    if command.wait is not None:
        return LaterResponse(partial(_waited, services, command, command.wait, ids, done))
    done()
    return JsonResponse(_accepted(command, ids), 202)


def _accepted(command: Command, ids: Sequence[str]) -> dict[str, Any]:
    answer = {"commandId": command.id, "ids": ids, "outcome": "accepted"}
    return {"id": ids[0], **answer} if command.names_id else answer


async def _waited(
    services: Services, command: Command, seconds: int, ids: Sequence[str], done: Callable[[], None]
) -> JsonResponse:
    """The answer once the command has been applied, or at the end of the wait."""
    with services.waits.place(command.client) as has_place:
        results = await _results(services, command.id, ids, seconds) if has_place else {}
    done()
    answer = _accepted(command, ids)
    if not has_place:
        return JsonResponse({**answer, "reason": _NO_PLACE}, 202)
    if len(results) < len(ids):
        return JsonResponse(answer, 202)
    answer |= {"outcome": "applied", "results": [results[id] for id in ids]}
    return JsonResponse(answer, 200, {"Preference-Applied": f"wait={seconds}"})


async def _results(services: Services, command_id: str, ids: Sequence[str], seconds: int) -> dict[str, ItemResult]:
    """The results of the items once all are known, or at the end of the wait."""
    answers = await services.waits.answers(command_id, ids, seconds)
    waiting: set[str] = set()
    missing = [id for id in ids if id not in answers]
    if missing:
        try:
            async with asyncio.timeout(_LAST_LOOK_SECONDS):
                last = await services.outcomes.answers([(command_id, id) for id in missing])
                answers |= {answer.item_id: answer for answer in last.values()}
                waiting = await services.parking.waiting_for(command_id)
                waiting |= await services.returns.waiting_for(command_id)
        except Exception as error:
            if not (isinstance(error, TimeoutError) or is_database_away(error)):
                raise
    results = {id: _result(answer) for id, answer in answers.items()}
    for id in waiting.intersection(ids).difference(results):
        results[id] = {"id": id, "outcome": Outcome.NOT_FOUND}
    return results


def _result(answer: Answer) -> ItemResult:
    result: ItemResult = {"id": answer.item_id, "outcome": answer.outcome}
    if answer.reason:
        result["reason"] = answer.reason
    return result
