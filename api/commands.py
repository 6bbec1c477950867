"""Commands: published as messages, answered once the broker has them, or once they have been applied."""

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

from api.auth.permissions import address_of
from api.outcomes import ItemResult, caller_digest, results_within
from api.services import Services
from api.web.bodies import check_no_body
from api.web.documents import problems
from api.web.encoded_slashes import has_encoded_slash, path_in_addresses
from api.web.in_hand import LaterResponse
from api.web.preferences import KEY_LENGTH, KEY_PATTERN, idempotency_key, wait_seconds
from api.web.problems import ProblemError, ProblemKind
from api.web.responses import JsonResponse
from domain.commands import KEY_REUSED, CommandMark, CommandOutcome, command_outcome
from domain.delivery import OutgoingMessage
from messaging.decoding import MAX_MESSAGE_BYTES
from messaging.envelope import of_command
from messaging.schemas import MAX_ITEMS, Note
from storage.database import unless_away

_NAMESPACE: Final = UUID("6f1c4f4e-8a4e-5b1c-9d53-0c9d3a1f7be2")
_DIGEST_BYTES: Final = 16
_KEY_REUSED: Final = (
    "This Idempotency-Key was sent with another body or query before. Nothing was accepted: use a new key for a new "
    "request, or repeat the first one as it was."
)
_NO_SLOT: Final = (
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
        "schema": {"type": "string", "minLength": 1, "maxLength": KEY_LENGTH, "pattern": KEY_PATTERN},
        "description": "The same key gives the same ids, so a repeated request changes nothing; 422 with another body",
    },
]

Reason = Annotated[Note | None, Query(description="Why; it stands in the audit log")]


class CommandAnswer(TypedDict):
    """The answer to a command: "accepted" (it will take effect), or a result for each id: "applied" where all took
    effect, "partial" where some did. `reason`: why nobody waited, where the client wanted that. `id`: that of the
    return, where the command is about one."""

    id: NotRequired[str]
    commandId: str
    ids: list[str]
    outcome: CommandOutcome
    reason: NotRequired[str]
    results: NotRequired[list[ItemResult]]


@dataclass(frozen=True, slots=True)
class Command:
    """One request for a change: its id, how long the client waits (seconds), whether it may be repeated, and the client
    whom its waits are counted for. `content` and `caller` are those of its `CommandMark`. `names_id`: it is about one
    item, whose id stands by itself in the answer."""

    id: str
    wait: int | None
    repeatable: bool
    client: str
    content: str = ""
    caller: str = ""
    names_id: bool = False

    @property
    def marks(self) -> dict[str, str]:
        """The fields that its messages carry so that their outcomes are stored."""
        return {"commandId": self.id}

    def saying(self, content: bytes) -> "Command":
        """The same, whose key stands for this content, whatever proofs come with it."""
        return replace(self, content=_digest(content)) if self.repeatable else self

    def mark(self, items: int) -> CommandMark:
        """The mark that its messages carry, if they are about so many items."""
        return CommandMark(items, self.content, self.caller)

    def has_made(self, mark: CommandMark | None) -> bool:
        """True if a message with this mark was of the same request, by the same caller."""
        return mark is not None and bool(mark.content) and (mark.content, mark.caller) == (self.content, self.caller)

    def item_id(self, index: int) -> str:
        """The id of the item that it makes; the same for a repeat of the command."""
        return str(uuid5(UUID(self.id), str(index))) if self.repeatable else str(uuid7())


@dataclass(frozen=True, slots=True)
class Earlier:
    """The outcomes of an earlier attempt at a command; none of one without a key, or while MongoDB is away.

    `mark`: that of the request that came first. `ids`: the items that have an outcome. `decided`: those of them that
    were of this very request, which are answered by their outcomes: neither judged nor published again.
    """

    mark: CommandMark | None = None
    ids: frozenset[str] = frozenset()
    decided: frozenset[str] = frozenset()


class _CommandOf:
    """The command that a request is, by its headers, its query, and its body, which has been read before it where there
    is one. Raises ProblemError, also for a body that nothing has read."""

    openapi: Final = {"parameters": _HEADERS}

    async def __call__(self, request: Request) -> Command:
        if not hasattr(request.state, "body_digest"):
            await check_no_body(request)
        command = _command(request)
        # For every line of the log that this request brings about.
        structlog.contextvars.bind_contextvars(command_id=command.id)
        return command


def _command(request: Request) -> Command:
    wait = wait_seconds(request.headers.getlist("prefer"))
    key = idempotency_key(request.headers.getlist("idempotency-key"))
    # By caller: a caller can't repeat another's command, nor read its outcome.
    subject = request.state.caller.subject
    client = address_of(request) if subject is None else f"subject {subject}"
    if key is None:
        id = str(uuid7())
        return Command(id, wait, repeatable=False, client=client, caller=caller_digest(subject, id))
    # A space can't be in the key, so nothing else comes to the same name.
    name = f"{request.method} {_path_of_keys(request.scope)} {key}"
    if subject is not None:
        name = f"{name} {subject}"
    id = str(uuid5(_NAMESPACE, name))
    return Command(
        id, wait, repeatable=True, client=client, content=_content_digest(request), caller=caller_digest(subject, id)
    )


def _path_of_keys(scope: Scope) -> str:
    """The path by which a key is named: decoded; with encoded slashes as in addresses, but for the first slash. Decoded
    they could be one with others, as `x%2Fy/z` and `x/y%2Fz`."""
    return path_in_addresses(scope).removeprefix("/") if has_encoded_slash(scope) else str(scope["path"])


def _content_digest(request: Request) -> str:
    content: bytes = getattr(request.state, "body_digest", b"")
    return _digest(content + request.scope["query_string"])


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


Commanded = Annotated[Command, Depends(_CommandOf())]
"""The command as a parameter of an endpoint."""


def command_answers(*kinds: ProblemKind) -> dict[str, Any]:
    """The options of a command's route: it answers 202, 200 once it has been applied, or one of these problems."""
    answer = {"model": CommandAnswer, "description": "Applied, at least in part: `results` has the outcome of each id"}
    told = problems(*kinds, ProblemKind.NOT_APPLIED)
    problem, outcome = ({"$ref": f"#/components/schemas/{name}"} for name in ("Problem", CommandAnswer.__name__))
    schema: dict[str, Any] = {"allOf": [problem, outcome]}
    if ProblemKind.ID_TAKEN in kinds:
        # Told before anything is published: there is no outcome.
        schema = {"anyOf": [schema, problem]}
    told[409] = {**told[409], "content": {"application/problem+json": {"schema": schema}}}
    return {
        "status_code": 202,
        "response_model": CommandAnswer,
        "response_description": "Accepted: it will take effect",
        "responses": {200: answer, **told},
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
    """Publish the messages of a command about these ids, wait if the client wants that, and answer. `done` is called
    before the answer is given. `earlier`: what has been looked up already.

    Raises ProblemError for a key that stands for another request, and for what is too large for a message; and
    BrokerAwayError: then some of the messages may have been taken, and the client is told to try again.
    """
    largest = max((len(message.value or b"") for message in messages), default=0)
    if largest > MAX_MESSAGE_BYTES:
        told = f"It comes to a message of {largest} bytes, and may have {MAX_MESSAGE_BYTES}. Send less at a time."
        raise ProblemError(ProblemKind.TOO_LARGE, told)
    mark = command.mark(len(ids))
    if earlier is None:
        earlier = await earlier_attempt(services, command, most=1)
    _begin(services, command, mark, earlier.mark)
    await services.publisher.publish([of_command(message, command.id, mark) for message in messages])
    services.recent_commands.accept(command.id)
    if command.wait is not None:
        return LaterResponse(partial(_waited, services, command, command.wait, ids, done))
    done()
    return JsonResponse(_accepted(command, ids), 202)


async def begin_command(services: Services, command: Command, items: int) -> Earlier:
    """Note a command about so many items before anything of it is kept. Raises ProblemError for a key that stands for
    another request."""
    earlier = await earlier_attempt(services, command, most=1)
    _begin(services, command, command.mark(items), earlier.mark)
    return earlier


async def earlier_attempt(services: Services, command: Command, most: int = MAX_ITEMS) -> Earlier:
    """Look up the outcomes of a command, so many at most. Raises ProblemError when its key is known to stand for
    another request."""
    if not command.repeatable:
        return Earlier()
    answers = await unless_away(services.outcomes.of_command(command.id, most), [])
    known = answers[0].mark if answers else None
    if known is not None:
        _begin(services, command, command.mark(known.items), known)
    return Earlier(
        known,
        frozenset(answer.item_id for answer in answers),
        frozenset(answer.item_id for answer in answers if command.has_made(answer.mark)),
    )


def _begin(services: Services, command: Command, mark: CommandMark, known: CommandMark | None) -> None:
    """Note the command, or the first one with its key. Raises ProblemError when the key stands for another request, as
    far as that is known here: a consumer looks again."""
    first = services.recent_commands.begin(command.id, known or mark)
    if (known or first).is_of_another(mark):
        raise ProblemError(ProblemKind.KEY_REUSED, _KEY_REUSED, extra={"commandId": command.id})


def _accepted(command: Command, ids: Sequence[str]) -> dict[str, Any]:
    answer = {"commandId": command.id, "ids": ids, "outcome": "accepted"}
    return {"id": ids[0], **answer} if command.names_id else answer


async def _waited(
    services: Services, command: Command, seconds: int, ids: Sequence[str], done: Callable[[], None]
) -> JsonResponse:
    """The answer once the command has been applied, or at the end of the wait. Raises ProblemError: none of it was."""
    with services.waits.slots.take(command.client) as has_slot:
        mark = command.mark(len(ids))
        results = await results_within(services, command.id, mark, ids, seconds) if has_slot else {}
    done()
    answer = _accepted(command, ids)
    if not has_slot:
        return JsonResponse({**answer, "reason": _NO_SLOT}, 202)
    if len(results) < len(ids):
        return JsonResponse(answer, 202)
    return _settled(answer, [results[id] for id in ids], {"Preference-Applied": f"wait={seconds}"})


def _settled(answer: dict[str, Any], results: Sequence[ItemResult], headers: dict[str, str]) -> JsonResponse:
    """The answer with the results of all items. Raises ProblemError: nothing was applied."""
    answer |= {"outcome": command_outcome([result["outcome"] for result in results]), "results": results}
    if answer["outcome"] is not CommandOutcome.REFUSED:
        return JsonResponse(answer, 200, headers)
    if any(result.get("reason") == KEY_REUSED for result in results):
        raise ProblemError(ProblemKind.KEY_REUSED, _KEY_REUSED, headers=headers, extra=answer)
    outcomes = {result.get("reason", result["outcome"]) for result in results}
    detail = f"No item was applied ({', '.join(sorted(outcomes)[:5])}): see `results`."
    raise ProblemError(ProblemKind.NOT_APPLIED, detail, headers=headers, extra=answer)
