"""The endpoint of requests for reviews: a customer has seen one."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Depends
from starlette.responses import Response

from api import examples
from api.auth.permissions import ReviewAuthor
from api.commands import Commanded, carry_out, command_answers
from api.services import Injected
from api.stores.bounds import check_store, stores_of
from api.web.bodies import JsonBody
from api.web.problems import ProblemKind
from api.web.routes import routes
from domain.permissions import Permission
from messaging.reminders import VIEWED_REQUEST, ViewedRequest
from messaging.topics import Topic

REQUEST: Final = JsonBody(VIEWED_REQUEST, {"An order": examples.VIEWED_REQUEST})

router: Final = routes(
    "/api/customerReviews", "Reviews", ProblemKind.MALFORMED_JSON, ProblemKind.VALIDATION, ProblemKind.UNAVAILABLE
)


@router.post("/viewedRequestReview", operation_id="noteRequestViewed", **command_answers())
async def note_viewed(
    caller: ReviewAuthor,
    request: Annotated[ViewedRequest, Depends(REQUEST)],
    command: Commanded,
    services: Injected,
) -> Response:
    """Note that the customer has seen the request for reviews of an order: no further reminder for it."""
    if request.store_id is not None:
        check_store(caller, request.store_id)
    given = request.model_dump(by_alias=True, exclude_none=True)
    # Who writes in their own name alone has a say about their own orders alone; the consumer knows whose one is.
    customer = {} if caller.may(Permission.CREATE_REVIEWS_FOR_OTHERS) else {"customerId": caller.subject}
    value = {"action": "viewed", **given, **customer, **stores_of(caller), **command.marks}
    id = request.customer_order_id
    message = services.message(Topic.REMINDER_COMMANDS, id, "reminder.command", value)
    return await carry_out(services, command, [id], [message])
