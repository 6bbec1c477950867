"""Endpoints of moderation: approve, reject, reset, delete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request
from pydantic import Field, TypeAdapter, ValidationError
from starlette.responses import Response

from api import examples
from api.auth.permissions import Moderator, ReviewDeleter
from api.commands import Command, Commanded, carry_out, command_answers
from api.services import Injected, Services
from api.stores.bounds import check_reviews, stores_of
from api.web.bodies import JsonBody, parse_json, raw_body
from api.web.problems import ItemError, ProblemKind, invalid, item_error
from api.web.routes import PlainRoute
from domain.permissions import Caller
from domain.reviews import ModerationAction, ReviewStatus
from messaging.moderation import EXPECTED_STATUS
from messaging.schemas import MAX_ITEMS, Id, Message, Note
from messaging.topics import Topic


class Deletion(Message):
    """The reviews to delete; more can be named in the query."""

    ids: Annotated[list[Id], Field(max_length=MAX_ITEMS, default_factory=list)]


DELETION: TypeAdapter[Deletion] = TypeAdapter(Deletion)
REVIEW_IDS: TypeAdapter[list[str]] = TypeAdapter(Annotated[list[Id], Field(min_length=1, max_length=MAX_ITEMS)])

_ANSWERS: Final = command_answers(ProblemKind.MALFORMED_JSON, ProblemKind.VALIDATION, ProblemKind.UNAVAILABLE)

REVIEWS: Final = JsonBody(REVIEW_IDS, {"One review": examples.REVIEW_IDS})
DELETED: Final = JsonBody(DELETION, {"One review": examples.DELETION}, required=False)

ReviewIds = Annotated[list[str], Depends(REVIEWS)]
Reason = Annotated[Note | None, Query(description="Why; it stands in the audit log")]


class _Expectation:
    """The status in which the caller saw the reviews, from the query.

    Raises ProblemError also for a query that isn't understood: a command without its condition would overwrite what
    somebody else decided.
    """

    openapi: Final = {
        "parameters": [
            {
                "name": "expectedStatus",
                "in": "query",
                "schema": EXPECTED_STATUS.json_schema(),
                "description": "A review in another status is refused, `status-changed`, with the status it has and "
                "who set it",
                "example": "New",
            }
        ]
    }

    def __init__(self, *others: str) -> None:
        self._names = ("expectedStatus", *others)

    async def __call__(self, request: Request) -> ReviewStatus | None:
        query = request.query_params
        errors = [_unknown(name, self._names) for name in query if name not in self._names]
        errors += [_twice(name) for name in query if name != "ids" and len(query.getlist(name)) > 1]
        if errors:
            raise invalid(errors)
        if "expectedStatus" not in query:
            return None
        try:
            return EXPECTED_STATUS.validate_python(query["expectedStatus"])
        except ValidationError as error:
            raise invalid([item_error({**each, "loc": ("expectedStatus",)}) for each in error.errors()]) from None


def _unknown(name: str, known: Sequence[str]) -> ItemError:
    by_word = {each.lower(): each for each in known}
    meant = " or ".join([by_word[word] for word in get_close_matches(name.lower(), by_word, n=1)] or known)
    return {"pointer": f"/{name}", "code": "unknown-field", "message": f"Not known here: use {meant}"}


def _twice(name: str) -> ItemError:
    return {"pointer": f"/{name}", "code": "duplicate-field", "message": "Must be there once"}


Expected = Annotated[ReviewStatus | None, Depends(_Expectation("reason"))]
ExpectedOfDeleted = Annotated[ReviewStatus | None, Depends(_Expectation("reason", "ids"))]

router = APIRouter(route_class=PlainRoute, prefix="/api/customerReviews", tags=["Moderation"])


@router.post("/approve", **_ANSWERS)
async def approve(
    caller: Moderator,
    ids: ReviewIds,
    command: Commanded,
    services: Injected,
    expected: Expected,
    reason: Reason = None,
) -> Response:
    """Approve reviews, in whatever state they are; the ratings of their objects follow."""
    return await _moderate(services, caller, command, ModerationAction.APPROVE, ids, expected, reason)


@router.post("/reject", **_ANSWERS)
async def reject(
    caller: Moderator,
    ids: ReviewIds,
    command: Commanded,
    services: Injected,
    expected: Expected,
    reason: Reason = None,
) -> Response:
    """Reject reviews, in whatever state they are; the ratings of their objects follow."""
    return await _moderate(services, caller, command, ModerationAction.REJECT, ids, expected, reason)


@router.post("/reset", **_ANSWERS)
async def reset(
    caller: Moderator,
    ids: ReviewIds,
    command: Commanded,
    services: Injected,
    expected: Expected,
    reason: Reason = None,
) -> Response:
    """Roll back the moderation of reviews: they are New again, and the ratings of their objects follow."""
    return await _moderate(services, caller, command, ModerationAction.RESET, ids, expected, reason)


async def ids_to_delete(request: Request, ids: Annotated[list[Id], Query(max_length=MAX_ITEMS)] = []) -> list[str]:  # noqa: B006
    """The ids in the body and in the query. Raises ProblemError when there are none, or too many."""
    named = list(ids)
    if not named or request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
        body = await raw_body(request)
        named += parse_json(DELETION, body).ids if body else []
    if not 1 <= len(named) <= MAX_ITEMS:
        message = f"Name 1 to {MAX_ITEMS} reviews, in the body or in the query"
        raise invalid([{"pointer": "/ids", "code": "too-long" if named else "missing", "message": message}])
    return named


@router.delete("", openapi_extra=DELETED.openapi, **_ANSWERS)
async def delete(
    caller: ReviewDeleter,
    ids: Annotated[list[str], Depends(ids_to_delete)],
    command: Commanded,
    services: Injected,
    expected: ExpectedOfDeleted,
    reason: Reason = None,
) -> Response:
    """Delete reviews and everything that the person wrote, for good."""
    return await _moderate(services, caller, command, ModerationAction.DELETE, ids, expected, reason)


async def _moderate(
    services: Services,
    caller: Caller,
    command: Command,
    action: ModerationAction,
    ids: Iterable[str],
    expected: ReviewStatus | None,
    reason: str | None,
) -> Response:
    """Publish one message for each review, so that commands about one review keep their order."""
    different = list(dict.fromkeys(ids))
    await check_reviews(services, caller, different)
    status = expected.label if expected is not None else None
    said = {"action": action, "moderator": caller.subject, "reason": reason or None, "expectedStatus": status}
    value = {name: each for name, each in said.items() if each is not None} | stores_of(caller) | command.marks
    messages = [
        services.message(Topic.MODERATION_COMMANDS, id, "review.moderation", {**value, "ids": [id]}) for id in different
    ]
    return await carry_out(services, command, different, messages)
