"""Endpoints of moderation: approve, reject, reset, delete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request
from pydantic import Field, TypeAdapter

from api import examples
from api.bodies import json_body, parse_json, raw_body
from api.commands import Command, CommandAnswer, Commanded, carry_out
from api.documents import command, problems, request_body
from api.problems import ProblemKind, invalid
from api.responses import JsonResponse
from api.services import Injected, Services
from domain.reviews import ModerationAction
from messaging.schemas import MAX_ITEMS, Id, Message
from messaging.topics import Topic


class Deletion(Message):
    """The reviews to delete; more can be named in the query."""

    ids: Annotated[list[Id], Field(max_length=MAX_ITEMS, default_factory=list)]


DELETION: TypeAdapter[Deletion] = TypeAdapter(Deletion)
REVIEW_IDS: TypeAdapter[list[str]] = TypeAdapter(Annotated[list[Id], Field(min_length=1, max_length=MAX_ITEMS)])

_RESPONSES: Final = {
    200: {"model": CommandAnswer},
    **problems(ProblemKind.MALFORMED_JSON, ProblemKind.VALIDATION, ProblemKind.UNAVAILABLE),
}
_IDS: Final = command(request_body(REVIEW_IDS, {"One review": examples.REVIEW_IDS}))

ReviewIds = Annotated[list[str], Depends(json_body(REVIEW_IDS))]

router = APIRouter(prefix="/api/customerReviews", tags=["Moderation"], responses=_RESPONSES)


@router.post("/approve", status_code=202, response_model=CommandAnswer, openapi_extra=_IDS)
async def approve(ids: ReviewIds, command: Commanded, services: Injected) -> JsonResponse:
    """Approve reviews, in whatever state they are; the ratings of their objects follow."""
    return await _moderate(services, command, ModerationAction.APPROVE, ids)


@router.post("/reject", status_code=202, response_model=CommandAnswer, openapi_extra=_IDS)
async def reject(ids: ReviewIds, command: Commanded, services: Injected) -> JsonResponse:
    """Reject reviews, in whatever state they are; the ratings of their objects follow."""
    return await _moderate(services, command, ModerationAction.REJECT, ids)


@router.post("/reset", status_code=202, response_model=CommandAnswer, openapi_extra=_IDS)
async def reset(ids: ReviewIds, command: Commanded, services: Injected) -> JsonResponse:
    """Roll back the moderation of reviews: they are New again, and the ratings of their objects follow."""
    return await _moderate(services, command, ModerationAction.RESET, ids)


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


@router.delete(
    "",
    status_code=202,
    response_model=CommandAnswer,
    openapi_extra=command(request_body(DELETION, {"One review": examples.DELETION}, required=False)),
)
async def delete(
    ids: Annotated[list[str], Depends(ids_to_delete)], command: Commanded, services: Injected
) -> JsonResponse:
    """Delete reviews and everything that the person wrote, for good."""
    return await _moderate(services, command, ModerationAction.DELETE, ids)


async def _moderate(services: Services, command: Command, action: ModerationAction, ids: Iterable[str]) -> JsonResponse:
    """Publish one message for each review, so that commands about one review keep their order."""
    different = list(dict.fromkeys(ids))
    topic = services.topics.name(Topic.MODERATION_COMMANDS)
    messages = [
        services.envelope.wrap(topic, id, "review.moderation", {"action": action, "ids": [id], **command.marks})
        for id in different
    ]
    return await carry_out(services, command, different, messages)
