"""Endpoints of feedback on reviews: replies, votes, reports."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from api import examples
from api.auth.permissions import Moderator, Replier, Reporter, Voter
from api.commands import Command, Commanded, Earlier, carry_out, command_answers, earlier_attempt
from api.services import Injected, Services
from api.stores.bounds import check_author, check_review, stores_of, visible_to
from api.web.bodies import JsonBody
from api.web.openapi import problems
from api.web.paging import DEFAULT_TAKE, Skip, Take, the_one_given, total_count
from api.web.problems import ProblemKind, invalid_at, not_found
from api.web.responses import JsonResponse, Row, Timestamp
from api.web.routes import routes
from domain.feedback import FeedbackAction
from domain.feedback_reports import ReportReason
from domain.permissions import Caller
from domain.reviews import ModerationAction, ReviewStatus
from messaging.feedback import REPLY, REPORT, VOTE, VOTER, GivenReply, GivenReport, GivenVote
from messaging.json_values import present
from messaging.schemas import Id, OptionalId
from messaging.topics import Topic


class ShownSettlement(Row):
    """The decision that settled a report."""

    action: ModerationAction
    moderator: str | None
    at: Timestamp


class ReportRow(Row):
    """A report about a review; `settled` is null while it is open."""

    id: str
    reason: ReportReason
    explanation: str
    at: Timestamp
    name: str | None
    email: str | None
    user_id: str | None
    settled: ShownSettlement | None


class ReportPage(TypedDict):
    """One page of the reports about a review, newest first, and their total number."""

    totalCount: int
    results: list[ReportRow]


@dataclass(frozen=True, slots=True)
class SentFeedback:
    """Feedback on a review, as its sender commands it."""

    caller: Caller
    command: Command
    review_id: str
    action: FeedbackAction
    fields: Mapping[str, Any]
    """Those of the action; the ones that are None aren't sent."""


GIVEN_REPLY: Final = JsonBody(REPLY, {"A reply": examples.REPLY})
GIVEN_VOTE: Final = JsonBody(VOTE, {"A vote": examples.VOTE})
GIVEN_VOTER: Final = JsonBody(VOTER, {"A voter": examples.VOTER}, required=False)
GIVEN_REPORT: Final = JsonBody(REPORT, {"A report": examples.REPORT})

ReviewId = Annotated[Id, Path(alias="id")]

router: Final = routes("/api/customerReviews/{id}", "Feedback")


@router.post("/reply", operation_id="replyToReview", **command_answers())
async def reply(
    caller: Replier,
    id: ReviewId,
    given: Annotated[GivenReply, Depends(GIVEN_REPLY)],
    command: Commanded,
    services: Injected,
) -> Response:
    """Reply to a review for its store, or change its reply. The reply is shown with the review."""
    fields = {"text": given.text, "author": given.author, "moderator": caller.subject}
    return await _reply(services, SentFeedback(caller, command, id, FeedbackAction.REPLY, fields))


@router.delete("/reply", **command_answers())
async def remove_reply(caller: Replier, id: ReviewId, command: Commanded, services: Injected) -> Response:
    """Remove the reply to a review."""
    fields = {"moderator": caller.subject}
    return await _reply(services, SentFeedback(caller, command, id, FeedbackAction.REMOVE_REPLY, fields))


@router.post("/votes", operation_id="voteOnReview", **command_answers(ProblemKind.NOT_FOUND))
async def vote(
    caller: Voter,
    id: ReviewId,
    given: Annotated[GivenVote, Depends(GIVEN_VOTE)],
    command: Commanded,
    services: Injected,
) -> Response:
    """Vote on whether an approved review is helpful, for yourself or, with the permission, for others.

    The last vote of a voter counts.
    """
    fields = {"userId": _voter(caller, given.user_id), "helpful": given.helpful}
    return await _send_as_reader(services, SentFeedback(caller, command, id, FeedbackAction.VOTE, fields))


async def voter_in(
    request: Request,
    user_id: Annotated[OptionalId, Query(alias="userId", description="Like `userId` in the body")] = None,
) -> str | None:
    """The voter in the query or in the body; None if neither names one. Raises ProblemError if they name different
    ones."""
    given = await GIVEN_VOTER(request)
    return the_one_given(("userId", given.user_id if given else None), ("userId", user_id))


@router.delete("/votes", openapi_extra=GIVEN_VOTER.openapi, **command_answers(ProblemKind.NOT_FOUND))
async def remove_vote(
    caller: Voter,
    id: ReviewId,
    user_id: Annotated[str | None, Depends(voter_in)],
    command: Commanded,
    services: Injected,
) -> Response:
    """Withdraw a vote on an approved review."""
    fields = {"userId": _voter(caller, user_id)}
    return await _send_as_reader(services, SentFeedback(caller, command, id, FeedbackAction.REMOVE_VOTE, fields))


@router.post("/reports", operation_id="reportReview", **command_answers(ProblemKind.NOT_FOUND))
async def report(
    caller: Reporter,
    id: ReviewId,
    given: Annotated[GivenReport, Depends(GIVEN_REPORT)],
    command: Commanded,
    services: Injected,
) -> Response:
    """Report an approved review: moderators see it in their lists. A report hides nothing by itself."""
    fields = given.model_dump(mode="json", by_alias=True) | {"userId": caller.subject}
    return await _send_as_reader(services, SentFeedback(caller, command, id, FeedbackAction.REPORT, fields))


@router.get("/reports", response_model=ReportPage, responses=problems(ProblemKind.NOT_FOUND))
async def list_reports(
    caller: Moderator,
    id: ReviewId,
    services: Injected,
    take: Annotated[Take, Query()] = DEFAULT_TAKE,
    skip: Annotated[Skip, Query()] = 0,
) -> JsonResponse:
    """The reports about a review, newest first."""
    visible_to(caller, await services.feedback.brief(id), "review")
    with await services.pages.rows(take):
        page = await services.reports.page(id, skip, take)
        total = await total_count(len(page), skip, take, lambda: services.reports.count(id))
        return JsonResponse({"totalCount": total, "results": [ReportRow.of(each) for each in page]})


async def _reply(services: Services, sent: SentFeedback) -> Response:
    await check_review(services, sent.caller, sent.review_id)
    return await _send(services, sent)


async def _send_as_reader(services: Services, sent: SentFeedback) -> Response:
    return await send_checked(services, sent, lambda: _check_approved(services, sent.caller, sent.review_id))


async def _check_approved(services: Services, caller: Caller, id: str) -> None:
    """Raise ProblemError unless the review is approved: for readers, the others don't exist."""
    brief = visible_to(caller, await services.feedback.brief(id), "approved review")
    if brief.status is not ReviewStatus.APPROVED:
        raise not_found("approved review")


def _voter(caller: Caller, user_id: str | None) -> str:
    """The voter: the one named, or else the caller. Raises ProblemError if there is none, or the caller may not vote
    for them."""
    voter = user_id or caller.subject
    if voter is None:
        raise invalid_at("/userId", "missing", "Send `userId`: without authentication the caller is unknown")
    check_author(caller, voter)
    return voter


async def send_checked(services: Services, sent: SentFeedback, check: Callable[[], Awaitable[None]]) -> Response:
    """Send feedback on a review after `check`, which raises if its sender may not see the review. A repeat of a decided
    command isn't checked again: the review may have become invisible since."""
    earlier = await earlier_attempt(services, sent.command)
    if sent.review_id not in earlier.decided:
        await check()
    return await _send(services, sent, earlier)


async def _send(services: Services, sent: SentFeedback, earlier: Earlier | None = None) -> Response:
    """Publish feedback on a review, keyed by its id, and answer as `carry_out` does."""
    id, command = sent.review_id, sent.command
    fields = {**present(sent.fields), **stores_of(sent.caller), **command.id_field}
    value = {"action": sent.action, "reviewId": id, **fields}
    message = services.message(Topic.REVIEW_FEEDBACK, id, "review.feedback", value)
    is_decided = earlier is not None and id in earlier.decided
    return await carry_out(services, command, [id], [] if is_decided else [message], earlier=earlier)
