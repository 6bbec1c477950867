"""Endpoints of moderation."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import Query
from starlette.responses import Response

from api.auth.permissions import Moderator, ReviewDeleter
from api.commands import Command, CommandedByStatus, Reason, carry_out, command_answers
from api.named_reviews import DELETED, DeletedOnes, NamedOnes, NamedReviews
from api.services import Injected, Services
from api.stores.bounds import check_reviews, stores_of
from api.web.queries import any_case
from api.web.routes import routes
from domain.delivery import OutgoingMessage
from domain.permissions import Caller
from domain.places import bucket_in
from domain.reviews import ModerationAction, ReviewStatus
from domain.reviews_facts import ReasonCode
from messaging.json_values import present
from messaging.moderation import Status, direct_value, routed_value
from messaging.topics import Topic

CodedReason = Annotated[
    ReasonCode | None,
    any_case(ReasonCode),
    Query(alias="reasonCode", description="Code of the reason; a low rating is not a valid reason"),
]

Expected = Annotated[
    Status | None,
    Query(
        alias="expectedStatus",
        description="A review in another status is refused, `status-changed`; its result has its `status`, and the "
        "`moderator` who set it",
        examples=["New"],
    ),
]

router: Final = routes("/api/customerReviews", "Moderation")


@router.post("/approve", operation_id="approveReviews", **command_answers())
async def approve(
    caller: Moderator,
    reviews: NamedOnes,
    command: CommandedByStatus,
    services: Injected,
    expected: Expected = None,
    reason: Reason = None,
) -> Response:
    """Approve reviews, whatever their status; the ratings of their objects follow."""
    return await _moderate(services, caller, command, ModerationAction.APPROVE, reviews, expected, reason)


@router.post("/reject", operation_id="rejectReviews", **command_answers())
async def reject(
    caller: Moderator,
    reviews: NamedOnes,
    command: CommandedByStatus,
    services: Injected,
    expected: Expected = None,
    reason: Reason = None,
    reason_code: CodedReason = None,
) -> Response:
    """Reject reviews, whatever their status; the ratings of their objects follow."""
    return await _moderate(services, caller, command, ModerationAction.REJECT, reviews, expected, reason, reason_code)


@router.post("/reset", operation_id="resetReviews", **command_answers())
async def reset(
    caller: Moderator,
    reviews: NamedOnes,
    command: CommandedByStatus,
    services: Injected,
    expected: Expected = None,
    reason: Reason = None,
) -> Response:
    """Undo the moderation of reviews: they are New again, and the ratings of their objects follow."""
    return await _moderate(services, caller, command, ModerationAction.RESET, reviews, expected, reason)


@router.delete("", operation_id="deleteReviews", openapi_extra=DELETED.openapi, **command_answers())
async def delete(
    caller: ReviewDeleter,
    reviews: DeletedOnes,
    command: CommandedByStatus,
    services: Injected,
    expected: Expected = None,
    reason: Reason = None,
) -> Response:
    """Delete reviews, and everything that their authors wrote in them, for good."""
    return await _moderate(services, caller, command, ModerationAction.DELETE, reviews, expected, reason)


async def _moderate(
    services: Services,
    caller: Caller,
    command: Command,
    action: ModerationAction,
    reviews: NamedReviews,
    expected: ReviewStatus | None,
    reason: str | None,
    reason_code: ReasonCode | None = None,
) -> Response:
    """Publish one message for each review, so that commands about one review keep their order."""
    ids, texts = list(dict.fromkeys(reviews.ids)), reviews.text_hashes or {}
    await check_reviews(services, caller, reviews.ids, reviews.pointer)
    status = expected.label if expected is not None else None
    fields = {
        "action": action,
        "moderator": caller.subject,
        "reason": reason or None,
        "reasonCode": reason_code,
        "expectedStatus": status,
    }
    value = present(fields) | stores_of(caller) | command.id_field
    placed = {id for id in ids if bucket_in(id) is not None}
    direct = placed if placed and await services.moderation_route.is_direct() else set()
    messages = [_message(services, id, texts.get(id), value, is_direct=id in direct) for id in ids]
    return await carry_out(services, command, ids, messages)


def _message(
    services: Services, id: str, text_hash: str | None, value: Mapping[str, Any], *, is_direct: bool
) -> OutgoingMessage:
    """The command about one review: directly to the owner of the place that its id has, or by the router."""
    if is_direct:
        return services.message(Topic.REVIEW_CHANGES, id, "review.moderation", direct_value(value, id, text_hash))
    return services.message(Topic.MODERATION_COMMANDS, id, "review.moderation", routed_value(value, id, text_hash))
