"""Endpoints for votes and reports from shops' pages."""

from typing import Annotated, Any, Final

from fastapi import Depends, Request
from pydantic import Field, StringConstraints, TypeAdapter
from starlette.responses import Response

from api import examples
from api.commands import Commanded, command_answers
from api.feedback import SentFeedback, send_checked
from api.services import Injected, Services
from api.web.bodies import JsonBody
from api.web.openapi import OPEN_TO_ALL
from api.web.problems import ProblemError, ProblemKind
from api.web.routes import routes
from domain.feedback import FeedbackAction, visitor_id
from domain.reviews import ReviewStatus
from messaging.feedback import GivenReport
from messaging.schemas import ClosedMessage, Id, NoNull
from storefront.middleware import OF_OBJECT
from storefront.rates import rates_of
from storefront.shoppers import Shopper, Writing


class PageVoter(ClosedMessage):
    """A browser that has voted on a review of the object."""

    review_id: Id
    voter: Annotated[
        NoNull,
        StringConstraints(min_length=16, max_length=128),
        Field(description="Random id that the browser generates and keeps"),
    ]


class PageVote(PageVoter):
    """A vote on a review of the object."""

    helpful: bool


class PageReport(GivenReport):
    """An objection to a review of the object."""

    review_id: Id


_REVIEW: Final = "0195e2c4-0000-7000-8000-000000000002"
_VOTER: Final = {"reviewId": _REVIEW, "voter": "b0c1a6a4-4b7e-4f0e-9a53-6b1f9f0f3a51"}
GIVEN_VOTE: Final = JsonBody(TypeAdapter(PageVote), {"A vote": {**_VOTER, "helpful": True}})
GIVEN_VOTER: Final = JsonBody(TypeAdapter(PageVoter), {"A voter": _VOTER})
GIVEN_REPORT: Final = JsonBody(TypeAdapter(PageReport), {"A report": {"reviewId": _REVIEW, **examples.REPORT}})

_ANSWERS: Final[dict[str, Any]] = {
    "openapi_extra": OPEN_TO_ALL,
    **command_answers(ProblemKind.FORBIDDEN, ProblemKind.NOT_FOUND, ProblemKind.TOO_MANY_REQUESTS),
}

router: Final = routes(OF_OBJECT, "Storefront")


@router.post("/votes", **_ANSWERS)
async def vote_on_page(
    request: Request,
    shopper: Writing,
    given: Annotated[PageVote, Depends(GIVEN_VOTE)],
    command: Commanded,
    services: Injected,
) -> Response:
    """Say whether a review is helpful. The last vote of a browser counts."""
    rates_of(request).votes.take(shopper.address, given.review_id)
    fields = {"userId": visitor_id(shopper.store.id, given.voter), "helpful": given.helpful}
    sent = SentFeedback(shopper.caller, command, given.review_id, FeedbackAction.VOTE, fields)
    return await _send(services, shopper, sent)


@router.delete("/votes", **_ANSWERS)
async def remove_vote_on_page(
    request: Request,
    shopper: Writing,
    given: Annotated[PageVoter, Depends(GIVEN_VOTER)],
    command: Commanded,
    services: Injected,
) -> Response:
    """Withdraw the vote of a browser."""
    rates_of(request).votes.take(shopper.address, given.review_id)
    fields = {"userId": visitor_id(shopper.store.id, given.voter)}
    sent = SentFeedback(shopper.caller, command, given.review_id, FeedbackAction.REMOVE_VOTE, fields)
    return await _send(services, shopper, sent)


@router.post("/reports", **_ANSWERS)
async def report_on_page(
    request: Request,
    shopper: Writing,
    given: Annotated[PageReport, Depends(GIVEN_REPORT)],
    command: Commanded,
    services: Injected,
) -> Response:
    """Report a review to the moderators. The report hides nothing by itself."""
    rates_of(request).reports.take(shopper.address, given.review_id)
    fields = given.model_dump(mode="json", by_alias=True, exclude={"review_id"})
    sent = SentFeedback(shopper.caller, command, given.review_id, FeedbackAction.REPORT, fields)
    return await _send(services, shopper, sent)


async def _send(services: Services, shopper: Shopper, sent: SentFeedback) -> Response:
    return await send_checked(services, sent, lambda: _check_shown(services, shopper, sent.review_id))


async def _check_shown(services: Services, shopper: Shopper, id: str) -> None:
    """Raises ProblemError (404) unless this is the id of an approved review of the object in the store."""
    brief = await services.feedback.brief(id)
    is_shown = (
        brief is not None
        and (brief.entity, brief.store_id) == (shopper.entity, shopper.store.id)
        and brief.status is ReviewStatus.APPROVED
    )
    if not is_shown:
        raise ProblemError(ProblemKind.NOT_FOUND, "There is no approved review of this object with this id.")
