"""Outcomes of commands: for requests that wait for them, and for later queries."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Annotated, Any, Final, NotRequired

from fastapi import Path
from typing_extensions import TypedDict

from api.auth.permissions import AnyCaller
from api.outcomes_messages import MESSAGES
from api.services import Injected, Services
from api.web.problems import ProblemError, ProblemKind
from api.web.responses import JsonResponse
from api.web.routes import routes
from domain.commands import KEY_REUSED, CommandMark, CommandOutcome, Outcome, command_outcome
from domain.permissions import Caller
from messaging.schemas import MAX_ITEMS
from storage.database import result_or_default
from storage.outcomes import ItemOutcome

_DIGEST_BYTES: Final = 16
_RESULTS_BYTES: Final = 384 * 1024

_SEE_RESULTS: Final = "See `results`."
_UNKNOWN: Final = (
    "No command of yours with this id is known: it has not been applied yet, was never accepted, or its "
    "outcome is older than 24 hours."
)


class ItemResult(TypedDict):
    """The outcome of one item of a command. `reason` is a code, `message` has its words. `status` and `moderator`: of
    a review that somebody else moderated first."""

    id: str
    outcome: Outcome
    reason: NotRequired[str]
    message: NotRequired[str]
    status: NotRequired[str]
    moderator: NotRequired[str | None]


class CommandState(TypedDict):
    """The outcome of a command so far: "accepted" until the outcome of every item is known."""

    commandId: str
    outcome: CommandOutcome
    results: list[ItemResult]


router: Final = routes("/api/commands", "Commands", ProblemKind.NOT_FOUND)


@router.get("/{commandId}", response_model=CommandState)
async def read_command(
    caller: AnyCaller, command_id: Annotated[str, Path(alias="commandId")], services: Injected
) -> JsonResponse:
    """The outcome of a command so far, for 24 hours. Callers see only their own commands."""
    with await services.pages.piece(_RESULTS_BYTES):
        # In this order: an item that takes effect between the queries has its answer by then.
        waiting = await _parked_items(services, command_id)
        answers = await services.outcomes.of_command(command_id, MAX_ITEMS)
        marks = [*(answer.mark for answer in answers), *waiting.values(), services.recent_commands.accepted(command_id)]
        mark = next((mark for mark in marks if mark is not None), None)
        is_known = mark is not None or answers or waiting
        if not is_known or not _is_own(caller, command_id, mark):
            raise ProblemError(ProblemKind.NOT_FOUND, _UNKNOWN)
        results = {answer.item_id: item_result(answer) for answer in answers}
        parked = waiting.keys() - results.keys()
        is_complete = not parked and bool(results) and len(results) >= (mark.items if mark else 0)
        results |= {id: _not_found(id) for id in sorted(parked)}
        outcome = command_outcome([result["outcome"] for result in results.values()])
        state: CommandState = {
            "commandId": command_id,
            "outcome": outcome if is_complete else CommandOutcome.ACCEPTED,
            "results": list(results.values()),
        }
        return JsonResponse(state)


def caller_digest(subject: str | None, command_id: str) -> str:
    """The digest that identifies the sender of a command; empty without authentication."""
    if subject is None:
        return ""
    return blake2b(f"{command_id}\n{subject}".encode(), digest_size=_DIGEST_BYTES).hexdigest()


def item_result(answer: ItemOutcome) -> ItemResult:
    """An outcome as the API shows it."""
    result: ItemResult = {"id": answer.item_id, "outcome": answer.outcome}
    if answer.reason:
        result["reason"] = answer.reason
        if message := answer.message or MESSAGES.get(answer.reason):
            result["message"] = message
    if answer.status:
        result |= {"status": answer.status, "moderator": answer.moderator}
    return result


def not_applied(results: Sequence[ItemResult]) -> str:
    """The text about results of which none is applied: the codes, and their message if it is the same for all."""
    codes = {result.get("reason", result["outcome"]) for result in results}
    messages = {result.get("message", _SEE_RESULTS) for result in results}
    message = messages.pop() if len(messages) == 1 else _SEE_RESULTS
    return f"No item was applied ({', '.join(sorted(codes)[:5])}). {message}"


async def results_within(
    services: Services, command_id: str, mark: CommandMark, ids: Sequence[str], seconds: int
) -> dict[str, ItemResult]:
    """The results of the items: once all are known, or those known after `seconds`."""
    answers = await services.waits.answers(command_id, ids, seconds)
    waiting: Mapping[str, Any] = {}
    missing = [id for id in ids if id not in answers]
    if missing and not services.waits.is_over:
        waiting = await result_or_default(_parked_items(services, command_id), {})
        last = await result_or_default(services.outcomes.answers([(command_id, id) for id in missing]), {})
        answers |= {answer.item_id: answer for answer in last.values()}
    results = {id: _result(answer, mark) for id, answer in answers.items()}
    for id in waiting.keys() & set(ids) - results.keys():
        results[id] = _not_found(id)
    return results


def _result(answer: ItemOutcome, mark: CommandMark) -> ItemResult:
    """The result for the sender of this content: another request with the same key may have come first."""
    if answer.mark and answer.mark.is_of_another(mark):
        return item_result(ItemOutcome(answer.command_id, answer.item_id, Outcome.REFUSED, KEY_REUSED))
    return item_result(answer)


def _not_found(id: str) -> ItemResult:
    return {"id": id, "outcome": Outcome.NOT_FOUND}


async def _parked_items(services: Services, command_id: str) -> dict[str, CommandMark | None]:
    """The parked items of a command, which wait for what they refer to."""
    reviews = await services.parked_moderation.waiting_for(command_id)
    return reviews | await services.parked_returns.waiting_for(command_id)


def _is_own(caller: Caller, command_id: str, mark: CommandMark | None) -> bool:
    return caller.subject is None or (mark is not None and mark.caller == caller_digest(caller.subject, command_id))
