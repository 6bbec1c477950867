"""Endpoints of returns: search, counts, available quantities, one return, create, change, delete."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Final

from fastapi import Depends, Path, Query
from pydantic import TypeAdapter
from starlette.responses import Response

from api import examples
from api.auth.permissions import ReturnAuthor, ReturnDeleter, ReturnEditor, ReturnReader, forbidden
from api.commands import Command, Commanded, CommandedByStatus, carry_out, command_answers, earlier_attempt
from api.returns.checks import check_change, check_new, new_return
from api.returns.rows import ReturnList, ReturnRow, return_row
from api.returns.search import CUSTOMER_ORDERS, RETURN_SEARCH, ReturnSearchRequest
from api.services import Injected, Services
from api.stores.bounds import stores_of, visible_to, within
from api.web.bodies import JsonBody
from api.web.openapi import problems
from api.web.pages import page_bytes, pieces_of
from api.web.paging import total_count
from api.web.problems import ProblemKind
from api.web.responses import JsonResponse
from api.web.routes import routes
from domain.delivery import OutgoingMessage
from domain.permissions import Caller, Permission
from domain.returns import Return
from domain.returns_statuses import DEFAULT_STATUSES
from messaging.returns import (
    CreateReturn,
    DeleteReturn,
    NewReturn,
    ReturnChanges,
    ReturnCommand,
    SavedReturn,
    UpdateReturn,
)
from messaging.schemas import MAX_ITEMS, StoredId
from messaging.topics import Topic
from storage.returns.search import FoundReturn, ReturnSearch

NEW_RETURN: TypeAdapter[NewReturn] = TypeAdapter(NewReturn)
SAVED_RETURN: TypeAdapter[SavedReturn] = TypeAdapter(SavedReturn)
SEARCH: Final = JsonBody(RETURN_SEARCH, examples.RETURN_SEARCHES)
CREATION: Final = JsonBody(NEW_RETURN, {"One line": examples.NEW_RETURN})
SAVED: Final = JsonBody(SAVED_RETURN, examples.RETURN_CHANGES)

MOST_COUNTED: Final = 1_000
"""Limit of a count by status, so that its cost doesn't grow with the number of matching returns."""

COUNTED_AMONG: Final = 10_000
"""Number of returns of each status, the newest, of which those with a keyword are counted. MongoDB reads them all."""

_DEFAULT_WAIT_S: Final = 5
"""Default wait of a PUT in seconds: Virto's clients read the return right after the answer, and don't send `Prefer`."""

router: Final = routes("/api/return", "Returns")


SearchRequest = Annotated[ReturnSearchRequest, Depends(SEARCH)]


@router.post("/search", response_model=ReturnList)
async def search_returns(caller: ReturnReader, request: SearchRequest, services: Injected) -> Response:
    """List returns with their orders: filtered, sorted, one page at a time."""
    search = await _search(services, caller, request)
    with await services.pages.rows(search.take) as room:
        page = await services.returns.page(search)
        room.give_back(down_to=page_bytes(len(page.found), text=0))
        sizes, total = await asyncio.gather(
            services.orders.sizes({each.order_id for each in page.found}),
            _total(services, request, search, len(page.found)),
        )

        def size(found: FoundReturn) -> int:
            return found.size + sizes.get(found.order_id, 0)

        async def rows(piece: list[FoundReturn]) -> list[ReturnRow]:
            with await services.pages.piece(sum(map(size, piece))):
                return await _rows(services, caller, piece, with_orders=request.with_orders)

        about = {"totalCount": total, "next": request.next_page(search, page)}
        return await services.pages.response(room, about, pieces_of(page.found, size), rows)


@router.post("/counts", operation_id="countReturnsByStatus", response_model=dict[str, int])
async def count_by_status(caller: ReturnReader, request: SearchRequest, services: Injected) -> JsonResponse:
    """Count returns by the statuses of the settings, each up to 1,000; `status`, `sort` and paging are ignored. With a
    `keyword` that is no number: among the 10,000 newest of each status."""
    search = await _search(services, caller, request)
    statuses = (await services.lookups.general()).return_statuses
    searches = [replace(search, statuses=[status], after=None) for status in statuses]
    count = partial(services.returns.count_at_bounded_cost, most=MOST_COUNTED, among=COUNTED_AMONG)
    counts = await asyncio.gather(*map(count, searches))
    return JsonResponse(dict(zip(statuses, counts, strict=True)))


async def _search(services: Services, caller: Caller, request: ReturnSearchRequest) -> ReturnSearch:
    """The search to run, within the caller's stores. Raises ProblemError."""
    orders: Sequence[str] | None = None
    if request.customer_id is not None:
        stores = caller.stores if request.store_id is None else [request.store_id]
        orders = await services.orders.ids_of_customer(request.customer_id, stores, most=CUSTOMER_ORDERS)
    statuses = (await services.lookups.general()).return_statuses if request.status else DEFAULT_STATUSES
    return within(caller, request.criteria(statuses, orders))


async def _total(services: Services, request: ReturnSearchRequest, search: ReturnSearch, found: int) -> int | None:
    if not request.with_total:
        return None
    same = replace(search, sort=(), skip=0, take=0, after=None)
    count = partial(services.large_counts.of, same, partial(services.returns.count, same))
    return await total_count(found, search.skip, search.take, count, after=search.after)


async def _rows(
    services: Services, caller: Caller, found: Collection[FoundReturn], *, with_orders: bool
) -> list[ReturnRow]:
    """The rows of these returns, each with its order if wanted; deleted ones are left out."""
    returns, orders = await asyncio.gather(
        services.returns.of_ids({each.id for each in found}),
        services.orders.of_ids({each.order_id for each in found}),
    )
    present = (returns.get(each.id) for each in found)
    known = {id: order for id, order in orders.items() if caller.may_touch(order.store_id)}
    return [
        return_row(each, known.get(each.order_id), with_order=with_orders)
        for each in present
        if isinstance(each, Return)
    ]


@router.get(
    "/available-quantities/{orderId:path}", response_model=dict[str, int], responses=problems(ProblemKind.NOT_FOUND)
)
async def read_available_quantities(
    caller: ReturnReader, order_id: Annotated[str, Path(alias="orderId")], services: Injected
) -> JsonResponse:
    """The quantities of an order that are still returnable, by line item id."""
    order = visible_to(caller, await services.orders.get(order_id), "order")
    return JsonResponse(order.available())


@router.get("/{id}", response_model=ReturnRow, responses=problems(ProblemKind.NOT_FOUND))
async def read_return(caller: ReturnReader, id: str, services: Injected) -> JsonResponse:
    """One return with its order."""
    stored = visible_to(caller, await services.returns.get(id), "return")
    order = await services.orders.get(stored.order_id)
    return JsonResponse(return_row(stored, order if order and caller.may_touch(order.store_id) else None))


@router.post("", operation_id="createReturn", **command_answers())
async def create(
    caller: ReturnAuthor, wanted: Annotated[NewReturn, Depends(CREATION)], command: Commanded, services: Injected
) -> Response:
    """Create a return for an order, as long as its quantities are available."""
    return await _create(services, caller, replace(command, names_id=True), wanted)


@router.put("", operation_id="saveReturn", **command_answers(ProblemKind.NOT_FOUND))
async def save(
    caller: ReturnEditor, wanted: Annotated[SavedReturn, Depends(SAVED)], command: CommandedByStatus, services: Injected
) -> Response:
    """Change the status, the resolution or the quantities of a return; omitted fields keep their values. Without an id,
    create one. Waits up to five seconds until it has been applied, unless `Prefer` says otherwise."""
    command = replace(command, names_id=True)
    if command.wait is None:
        command = replace(command, wait=_DEFAULT_WAIT_S, is_wait_preferred=False)
    if wanted.id is None:
        if not caller.may(Permission.CREATE_RETURNS):
            raise forbidden(f"This needs the permission {Permission.CREATE_RETURNS}.")
        return await _create(services, caller, command, new_return(wanted))
    earlier = await earlier_attempt(services, command, most=1)
    messages = [] if wanted.id in earlier.decided else [await _change(services, caller, command, wanted.id, wanted)]
    return await carry_out(services, command, [wanted.id], messages, earlier=earlier)


@router.delete("", operation_id="deleteReturns", **command_answers())
async def delete(
    caller: ReturnDeleter,
    ids: Annotated[list[StoredId], Query(min_length=1, max_length=MAX_ITEMS, description="Ids of returns")],
    command: Commanded,
    services: Injected,
) -> Response:
    """Delete returns for good; their quantities become returnable again."""
    unique_ids = list(dict.fromkeys(ids))
    order_ids = await services.returns.order_ids(unique_ids)
    fields = {"user": caller.subject, "command_id": command.id, **stores_of(caller)}
    messages = [
        _message(
            services,
            order_ids.get(id, id),
            DeleteReturn.model_validate({"action": "delete", "return_": {"id": id}, **fields}),
        )
        for id in unique_ids
    ]
    return await carry_out(services, command, unique_ids, messages)


async def _create(services: Services, caller: Caller, command: Command, wanted: NewReturn) -> Response:
    id = wanted.id or command.item_id(0)
    creation = CreateReturn(
        action="create",
        return_=wanted.model_copy(update={"id": id}),
        user=caller.subject,
        command_id=command.id,
        **stores_of(caller),
    )
    await check_new(services, command, id, creation)
    return await carry_out(services, command, [id], [_message(services, wanted.order_id, creation)])


async def _change(
    services: Services, caller: Caller, command: Command, id: str, wanted: SavedReturn
) -> OutgoingMessage:
    """The message that changes a return. Raises ProblemError if the caller may not see the return, or can't change it
    like this."""
    known = visible_to(caller, await services.returns.get(id), "return")
    update = UpdateReturn(
        action="update",
        return_=ReturnChanges.model_validate(wanted.model_dump()),
        user=caller.subject,
        command_id=command.id,
        **stores_of(caller),
    )
    await check_change(services, command, known, update)
    update.return_.order_id = known.order_id
    return _message(services, known.order_id, update)


def _message(services: Services, order_id: str, command: ReturnCommand) -> OutgoingMessage:
    """The message of a command, keyed by its order, so that commands about one order are applied in sequence."""
    value = command.model_dump(mode="json", by_alias=True, exclude_none=True)
    return services.message(Topic.RETURN_COMMANDS, order_id, f"return.{command.action}", value)
