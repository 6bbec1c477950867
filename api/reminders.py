"""Endpoints of requests for reviews: a preview of the next reminders, with the reasons against others; and a note that
a customer has seen a request."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from fastapi import Depends, Query
from starlette.responses import Response
from typing_extensions import TypedDict

from api import examples
from api.auth.permissions import ReviewAuthor, SettingsReader
from api.commands import Commanded, carry_out, command_answers
from api.services import Injected, Services
from api.stores.bounds import check_store, stores_of, stores_to_search
from api.web.bodies import JsonBody
from api.web.paging import DEFAULT_TAKE
from api.web.responses import JsonResponse
from api.web.routes import routes
from domain.permissions import Permission
from domain.reminders import Decided, Reminder, Skip, due_date
from domain.stores import ReminderSettings, Store, store_name
from domain.timestamps import timestamp
from messaging.cron import InvalidCronError, in_words, next_times
from messaging.reminders import VIEWED_REQUEST, ViewedRequest
from messaging.schemas import OptionalId, ShownMoment
from messaging.topics import Topic
from storage.reminders.decisions import ReminderDecisions

MAX_TAKE: Final = 200
NEXT_RUNS: Final = 5

REMIND: Final = "remind"

VIEWED: Final = JsonBody(VIEWED_REQUEST, {"An order": examples.VIEWED_REQUEST})


class PreviewedOrder(TypedDict):
    """The decision on an order: `remind`, or the reason for no reminder. `dueDate` is set if it isn't due yet.
    `products` are those that the mail would ask about, or else all of the order; `remindersSent` counts the reminders
    of the order."""

    orderId: str
    number: str | None
    storeId: str | None
    storeName: str | None
    customerId: str | None
    statusDate: ShownMoment
    decision: Literal["remind"] | Skip
    dueDate: ShownMoment | None
    remindersSent: int
    products: list[str]


class ReminderPreview(TypedDict):
    """The decisions of a run at this moment, reminders first; the cron expression in words and its next times in UTC,
    which are null and empty if it can't be parsed."""

    at: ShownMoment
    enabled: bool
    cron: str
    cronInWords: str | None
    nextRuns: list[str]
    results: list[PreviewedOrder]


router: Final = routes("/api/reminders", "Reminders")
viewed: Final = routes("/api/customerReviews", "Reviews")


@router.get("/preview", response_model=ReminderPreview)
async def preview_reminders(
    caller: SettingsReader,
    services: Injected,
    store_id: Annotated[
        OptionalId, Query(alias="storeId", description="Missing: all stores that the caller may see")
    ] = None,
    order_id: Annotated[OptionalId, Query(alias="orderId", description="Only the decision on this order")] = None,
    take: Annotated[
        int, Query(ge=0, le=MAX_TAKE, description="Maximum number of orders that are due, and of other orders")
    ] = DEFAULT_TAKE,
) -> JsonResponse:
    """The decisions of a run at this moment on orders that are due, and on the latest others in the status. Sends
    nothing."""
    stores, now = stores_to_search(caller, store_id), datetime.now(UTC)
    settings = (await services.stores.general()).reminder
    with await services.pages.rows(2 * take):
        decided = await _decide(services, settings, now, stores, order_id, take)
        of_orders = await services.lookups.stores(each.order.store_id for each in decided)
        return JsonResponse(
            {
                "at": timestamp(now),
                "enabled": settings.enabled,
                "cron": settings.cron,
                **_schedule(settings.cron, now),
                "results": [
                    _row(each, settings, of_orders)
                    for each in sorted(decided, key=lambda each: isinstance(each.decision, Skip))
                ],
            }
        )


@viewed.post("/viewedRequestReview", operation_id="noteRequestViewed", **command_answers())
async def note_viewed(
    caller: ReviewAuthor,
    request: Annotated[ViewedRequest, Depends(VIEWED)],
    command: Commanded,
    services: Injected,
) -> Response:
    """Note that the customer has seen the request for reviews of an order: no further reminder is sent for it."""
    if request.store_id is not None:
        check_store(caller, request.store_id)
    given = request.model_dump(by_alias=True, exclude_none=True)
    # A caller that may write only as itself affects only its own orders; the consumer knows whose they are.
    customer = {} if caller.may(Permission.CREATE_REVIEWS_FOR_OTHERS) else {"customerId": caller.subject}
    value = {"action": "viewed", **given, **customer, **stores_of(caller), **command.id_field}
    id = request.customer_order_id
    message = services.message(Topic.REMINDER_COMMANDS, id, "reminder.command", value)
    return await carry_out(services, command, [id], [message])


async def _decide(
    services: Services,
    settings: ReminderSettings,
    now: datetime,
    stores: Collection[str] | None,
    order_id: str | None,
    take: int,
) -> Sequence[Decided]:
    """The decisions on the named order, or else on at most `take` that are due and `take` others, of these stores."""
    decisions = ReminderDecisions(services.database, needs_email=services.reminders_need_email)
    if order_id is None:
        return await decisions.on_some(settings, now, take, within=stores) if take else []
    found, _ = await services.reminders.readable([order_id])
    asked = [each for each in found if stores is None or each.store_id in stores]
    return (await decisions.on(asked, settings, now)).decided


def _schedule(cron: str, now: datetime) -> dict[str, object]:
    try:
        return {"cronInWords": in_words(cron), "nextRuns": [timestamp(at) for at in next_times(cron, now, NEXT_RUNS)]}
    except InvalidCronError:
        # Only after a change in the database itself; the scheduler keeps the previous expression, and logs that.
        return {"cronInWords": None, "nextRuns": []}


def _row(decided: Decided, settings: ReminderSettings, stores: Mapping[str, Store]) -> PreviewedOrder:
    order, decision = decided.order, decided.decision
    due = due_date(order, settings) if decision is Skip.NOT_YET else None
    reminder = decision if isinstance(decision, Reminder) else None
    return {
        "orderId": order.id,
        "number": order.number,
        "storeId": order.store_id,
        "storeName": store_name(order.store_id, stores),
        "customerId": order.customer.id,
        "statusDate": timestamp(order.status_since),
        "decision": REMIND if isinstance(decision, Reminder) else decision,
        "dueDate": timestamp(due) if due else None,
        # The order already counts the reminder.
        "remindersSent": order.reminders.sent - (1 if reminder else 0),
        "products": [item.name for item in (reminder or order).items],
    }
