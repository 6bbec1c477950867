"""Commands: published as messages, answered once the brokers have them or, on request, once they are applied."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Annotated, Any, Final, NotRequired
from uuid import UUID, uuid5

import structlog
from fastapi import Depends, Query, Request
from starlette.responses import Response
from starlette.types import Scope
from typing_extensions import TypedDict
from uuid_utils import uuid7

from api.auth.permissions import client_name
from api.outcomes import ItemResult, caller_digest, not_applied, results_within
from api.services import Services
from api.web.bodies import check_no_body
from api.web.concurrency import LaterResponse
from api.web.encoded_slashes import has_encoded_slash, path_in_addresses
from api.web.openapi import problems
from api.web.preferences import KEY_LENGTH, KEY_PATTERN, check_unconditional, idempotency_key, wait_seconds
from api.web.problems import ProblemError, ProblemKind
from api.web.responses import JsonResponse
from domain.commands import KEY_REUSED, CommandMark, CommandOutcome, command_outcome
from domain.delivery import OutgoingMessage
from messaging.decoding import MAX_MESSAGE_BYTES
from messaging.envelope import of_command
from messaging.schemas import MAX_ITEMS, Note
from storage.database import result_or_default

_NAMESPACE: Final = UUID("6f1c4f4e-8a4e-5b1c-9d53-0c9d3a1f7be2")
_DIGEST_BYTES: Final = 16
_KEY_REUSED: Final = (
    "This Idempotency-Key was sent before with another body or query. Nothing was accepted: use a new key "
    "for a new request, or repeat the first request unchanged."
)
_NO_SLOT: Final = (
    "The command will take effect. The request didn't wait for it, because the maximum number of waiting "
    "requests is reached. Repeat it later with the same Idempotency-Key to get its outcome, or let fewer "
    "requests wait at a time."
)

_HEADERS: Final = [
    {
        "name": "Prefer",
        "in": "header",
        "schema": {"type": "string"},
        "description": "`wait=N` (RFC 7240): 200 once the command has been applied, 202 after N (up to 30) seconds",
        "example": "wait=5",
    },
    {
        "name": "Idempotency-Key",
        "in": "header",
        "schema": {"type": "string", "minLength": 1, "maxLength": KEY_LENGTH, "pattern": KEY_PATTERN},
        "description": "The same key gives the same ids, so a repeat changes nothing; 422 with another body or query",
    },
]

Reason = Annotated[Note | None, Query(description="Reason, for the audit log")]


class CommandAnswer(TypedDict):
    """The answer to a command: "accepted" (it will take effect), or a result for each id: "applied" if all took effect,
    "partial" if some did. `reason`: why the request didn't wait although the client asked for it. `id`: the id of the
    return or image, if the command is about a single one."""

    id: NotRequired[str]
    commandId: str
    ids: list[str]
    outcome: CommandOutcome
    reason: NotRequired[str]
    results: NotRequired[list[ItemResult]]


@dataclass(frozen=True, slots=True)
class Command:
    """One request for a change."""

    id: str
    wait: int | None
    """Maximum seconds that the client waits for the outcome; 0 if it doesn't want to; None if it didn't say."""
    repeatable: bool
    """True for a request with an idempotency key."""
    client: str
    """The client that its wait is counted for."""
    content: str = ""
    """With `caller`: see `CommandMark`."""
    caller: str = ""
    is_wait_preferred: bool = True
    """False if the wait is the default of the endpoint: the client sent no `Prefer: wait`."""
    names_id: bool = False
    """True for a command about one item, whose id is also the `id` of the answer."""

    @property
    def id_field(self) -> dict[str, str]:
        """The field that its messages carry so that their outcomes are stored."""
        return {"commandId": self.id}

    def bound_to(self, content: bytes) -> "Command":
        """The same command, its key bound to this content alone: proofs sent along may differ in a repeat."""
        return replace(self, content=_digest(content)) if self.repeatable else self

    def mark(self, items: int) -> CommandMark:
        """The mark of its messages, if they concern `items` items in total."""
        return CommandMark(items, self.content, self.caller)

    def is_origin_of(self, mark: CommandMark | None) -> bool:
        """True if a message with this mark came from the same request by the same caller."""
        return mark is not None and bool(mark.content) and (mark.content, mark.caller) == (self.content, self.caller)

    def item_id(self, index: int) -> str:
        """The id of the item that the command creates at this index; a repeat gets the same id."""
        return str(uuid5(UUID(self.id), str(index))) if self.repeatable else str(uuid7())


@dataclass(frozen=True, slots=True)
class Earlier:
    """The outcomes of an earlier attempt at a command; empty without a key, or while MongoDB is unavailable."""

    mark: CommandMark | None = None
    """The mark of the first request with the key."""
    ids: frozenset[str] = frozenset()
    """The items that have an outcome."""
    decided: frozenset[str] = frozenset()
    """Those of this same request: answered with their outcomes, neither checked nor published again."""


class _CommandReader:
    """A dependency: the command of a request, from its headers, its query and its body, which must have been read
    before. Raises ProblemError, also for a body that no dependency has read. `instead`: see `check_unconditional`."""

    openapi: Final = {"parameters": _HEADERS}

    def __init__(self, instead: str = "") -> None:
        self._instead = instead

    async def __call__(self, request: Request) -> Command:
        if not hasattr(request.state, "body_digest"):
            await check_no_body(request)
        check_unconditional(request.scope["headers"], self._instead)
        command = _command(request)
        # For all log lines of this request.
        structlog.contextvars.bind_contextvars(command_id=command.id)
        return command


def _command(request: Request) -> Command:
    wait = wait_seconds(request.headers.getlist("prefer"))
    key = idempotency_key(request.headers.getlist("idempotency-key"))
    # By caller, so that nobody can repeat another caller's command, or read its outcome.
    subject = request.state.caller.subject
    client = client_name(request, subject)
    if key is None:
        id = str(uuid7())
        return Command(id, wait, repeatable=False, client=client, caller=caller_digest(subject, id))
    # A key contains no space, nor does the path if a subject follows, so no other request gets the same name.
    name = f"{request.method} {_key_path(request.scope, may_have_spaces=subject is None)} {key}"
    if subject is not None:
        name += f" {subject}"
    id = str(uuid5(_NAMESPACE, name))
    content = _digest(getattr(request.state, "body_digest", b"") + request.scope["query_string"])
    return Command(id, wait, repeatable=True, client=client, content=content, caller=caller_digest(subject, id))


def _key_path(scope: Scope, *, may_have_spaces: bool) -> str:
    """The path that a key belongs to. It is decoded; one with encoded slashes, or with spaces that it may not have, is
    as in URLs, without the first slash: decoding would make `x%2Fy/z` and `x/y%2Fz` the same."""
    path = str(scope["path"])
    is_as_in_urls = has_encoded_slash(scope) or (" " in path and not may_have_spaces)
    return path_in_addresses(scope).removeprefix("/") if is_as_in_urls else path


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


Commanded = Annotated[Command, Depends(_CommandReader())]
"""The command as a parameter of an endpoint."""
CommandedByStatus = Annotated[Command, Depends(_CommandReader("`expectedStatus` refuses what has another status."))]
"""The same, of an endpoint that has a field or parameter `expectedStatus`."""


def command_answers(*kinds: ProblemKind) -> dict[str, Any]:
    """The route options of a command, which answers 202, 200 once it has been applied, or one of these problems."""
    answer = {"model": CommandAnswer, "description": "Applied, at least in part: `results` has the outcome of each id"}
    responses = problems(*kinds, ProblemKind.NOT_APPLIED)
    problem, outcome = ({"$ref": f"#/components/schemas/{name}"} for name in ("Problem", CommandAnswer.__name__))
    schema: dict[str, Any] = {"allOf": [problem, outcome]}
    if ProblemKind.ID_TAKEN in kinds:
        # Refused before anything is published, so there is no outcome.
        schema = {"anyOf": [schema, problem]}
    responses[409] = {**responses[409], "content": {"application/problem+json": {"schema": schema}}}
    return {
        "status_code": 202,
        "response_model": CommandAnswer,
        "response_description": "Accepted: the command will take effect",
        "responses": {200: answer, **responses},
    }


async def carry_out(
    services: Services,
    command: Command,
    ids: Sequence[str],
    messages: Sequence[OutgoingMessage],
    *,
    done: Callable[[], None] = lambda: None,
    earlier: Earlier | None = None,
) -> Response:
    """Publish the messages of a command about these ids, wait if the client wants to, and answer. `done` is called
    before the answer is returned. `earlier`: the result of `earlier_attempt`, if already looked up.

    Raises ProblemError if the key belongs to another request, or a message is too large; BrokerAwayError if Kafka
    doesn't acknowledge: some messages may have been taken, and the client is asked to retry.
    """
    largest = max((len(message.value or b"") for message in messages), default=0)
    if largest > MAX_MESSAGE_BYTES:
        detail = f"It makes a message of {largest} bytes, above the limit of {MAX_MESSAGE_BYTES}. Send less at a time."
        raise ProblemError(ProblemKind.TOO_LARGE, detail)
    mark = command.mark(len(ids))
    if earlier is None:
        earlier = await earlier_attempt(services, command, most=1)
    _register(services, command, mark, earlier.mark)
    await services.publisher.publish([of_command(message, command.id, mark) for message in messages])
    services.recent_commands.accept(command.id)
    if command.wait:
        return LaterResponse(partial(_wait_and_answer, services, command, command.wait, ids, done))
    done()
    return JsonResponse(_accepted_answer(command, ids), 202)


async def begin_command(services: Services, command: Command) -> Earlier:
    """Register a command about one item before anything is stored for it. Raises ProblemError if its key belongs to
    another request."""
    earlier = await earlier_attempt(services, command, most=1)
    _register(services, command, command.mark(1), earlier.mark)
    return earlier


async def earlier_attempt(services: Services, command: Command, most: int = MAX_ITEMS) -> Earlier:
    """Look up the outcomes of a command, at most `most`. Raises ProblemError if its key is known to belong to another
    request."""
    if not command.repeatable:
        return Earlier()
    answers = await result_or_default(services.outcomes.of_command(command.id, most), [])
    known = answers[0].mark if answers else None
    if known is not None:
        _register(services, command, command.mark(known.items), known)
    return Earlier(
        known,
        frozenset(answer.item_id for answer in answers),
        frozenset(answer.item_id for answer in answers if command.is_origin_of(answer.mark)),
    )


def _register(services: Services, command: Command, mark: CommandMark, known: CommandMark | None) -> None:
    """Register the command, or keep the first one with its key. Raises ProblemError if the key belongs to another
    request, as far as this process knows: a consumer checks again."""
    first = services.recent_commands.begin(command.id, known or mark)
    if (known or first).is_of_another(mark):
        raise ProblemError(ProblemKind.KEY_REUSED, _KEY_REUSED, extra={"commandId": command.id})


def _accepted_answer(command: Command, ids: Sequence[str]) -> dict[str, Any]:
    answer = {"commandId": command.id, "ids": ids, "outcome": "accepted"}
    return {"id": ids[0], **answer} if command.names_id else answer


async def _wait_and_answer(
    services: Services, command: Command, seconds: int, ids: Sequence[str], done: Callable[[], None]
) -> JsonResponse:
    """The answer once the command has been applied, or at the end of the wait. Raises ProblemError if nothing was
    applied."""
    with services.waits.slots.take(command.client) as has_slot:
        mark = command.mark(len(ids))
        results = await results_within(services, command.id, mark, ids, seconds) if has_slot else {}
    done()
    answer = _accepted_answer(command, ids)
    if not has_slot:
        return JsonResponse({**answer, "reason": _NO_SLOT}, 202)
    if len(results) < len(ids):
        return JsonResponse(answer, 202)
    headers = {"Preference-Applied": f"wait={seconds}"} if command.is_wait_preferred else {}
    return _final_answer(answer, [results[id] for id in ids], headers)


def _final_answer(answer: dict[str, Any], results: Sequence[ItemResult], headers: dict[str, str]) -> JsonResponse:
    """The answer with the results of all items. Raises ProblemError if nothing was applied."""
    answer |= {"outcome": command_outcome([result["outcome"] for result in results]), "results": results}
    if answer["outcome"] is not CommandOutcome.REFUSED:
        return JsonResponse(answer, 200, headers)
    if any(result.get("reason") == KEY_REUSED for result in results):
        raise ProblemError(ProblemKind.KEY_REUSED, _KEY_REUSED, headers=headers, extra=answer)
    raise ProblemError(ProblemKind.NOT_APPLIED, not_applied(results), headers=headers, extra=answer)
