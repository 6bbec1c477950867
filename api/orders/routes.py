"""Endpoints of orders: search, one order."""

from typing import Annotated, Final

from fastapi import Depends
from starlette.responses import Response

from api import examples
from api.auth.permissions import ReturnReader
from api.orders.rows import OrderDetails, OrderList, OrderRow, order_details, order_row
from api.orders.search import ORDER_SEARCH, OrderSearchRequest
from api.services import Injected
from api.stores.bounds import visible_to, within
from api.web.bodies import JsonBody
from api.web.openapi import problems
from api.web.pages import page_bytes, pieces_of
from api.web.problems import ProblemKind
from api.web.responses import JsonResponse
from api.web.routes import routes

SEARCH: Final = JsonBody(ORDER_SEARCH, examples.ORDER_SEARCHES)

router: Final = routes("/api/orders", "Orders")


@router.post("/search", response_model=OrderList)
async def search_orders(
    caller: ReturnReader, request: Annotated[OrderSearchRequest, Depends(SEARCH)], services: Injected
) -> Response:
    """List the received orders, newest first, one page at a time, without their total number."""
    search, bought = within(caller, request.criteria()), request.bought
    with await services.pages.rows(search.take) as room:
        page = await services.orders.page(search)
        room.give_back(down_to=page_bytes(len(page.sizes), text=0))

        async def rows(ids: list[str]) -> list[OrderRow]:
            with await services.pages.piece(sum(page.sizes[id] for id in ids)):
                known = await services.orders.of_ids(ids)
                orders = [known[id] for id in ids if id in known]
                stores = await services.lookups.stores(order.store_id for order in orders)
                if bought is None:
                    return [order_row(each, stores) for each in orders]
                proofs = services.purchases.proofs(orders, bought)
                return [{**order_row(each, stores), "provesPurchase": each.id in proofs} for each in orders]

        pieces = pieces_of(page.sizes, page.sizes.__getitem__)
        return await services.pages.response(room, {"next": request.next_page(page)}, pieces, rows)


# The id comes from the shop, and may contain slashes.
@router.get("/{id:path}", response_model=OrderDetails, responses=problems(ProblemKind.NOT_FOUND))
async def read_order(caller: ReturnReader, id: str, services: Injected) -> JsonResponse:
    """One order, with all fields of its last event."""
    order = visible_to(caller, await services.orders.get(id), "order")
    return JsonResponse(order_details(order, await services.lookups.stores([order.store_id])))
