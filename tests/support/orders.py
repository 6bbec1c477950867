"""Orders as upstream systems publish them, and returns as clients of the facade see them."""

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx

from .facade import Facade, body_of, new_id
from .messages import Message, message
from .retries import retry_until_served
from .service import Json, Service, kind_of
from .waiting import eventually

RETURNS = "/api/return"
SAMPLE_MODIFIED = "2022-03-14T10:00:00Z"


def an_order(id: str, quantities: dict[str, int], **fields: Any) -> Json:
    """An order of one store and customer with these quantities by line id, at 10 each."""
    return {
        "id": id,
        "number": f"CO-{id}",
        "status": "New",
        "storeId": "Electronics",
        "customerId": "anna",
        "modifiedDate": SAMPLE_MODIFIED,
        "items": [{"id": line, "productId": line, "quantity": q, "price": 10} for line, q in quantities.items()],
        **fields,
    }


def order_event(order: Json) -> Message:
    """The event for the current state of an order."""
    return message(order, order["id"])


def wanted_return(order_id: str, quantities: dict[str, int], **fields: Any) -> Json:
    """The body that requests a return."""
    return {"orderId": order_id, "lineItems": lines_of(quantities), **fields}


def lines_of(quantities: dict[str, int]) -> list[Json]:
    """Line items of a return."""
    return [{"orderLineItemId": line, "quantity": quantity} for line, quantity in quantities.items()]


def return_command(action: str, wanted: Json, key: str | None = None, **fields: Any) -> Message:
    return message({"action": action, "return": wanted, **fields}, key or wanted.get("orderId"))


@dataclass(frozen=True, slots=True)
class Returns:
    """Orders and returns of one service."""

    service: Service
    http: httpx.AsyncClient

    async def ordered(self, quantities: dict[str, int], **fields: Any) -> str:
        """Publish an order and wait until it is known. Returns its id."""
        id = fields.pop("id", None) or new_id("order")
        await self.service.publish("order-events", order_event(an_order(id, quantities, **fields)))
        await eventually(partial(self.available, id), lambda known: known is not None)
        return id

    async def available(self, order_id: str) -> dict[str, int] | None:
        """Quantities of an order that can still be returned, by line; None if the order is unknown."""
        return await self._known(f"{RETURNS}/available-quantities/{order_id}")

    async def create(self, order_id: str, quantities: dict[str, int], **fields: Any) -> str:
        """Create a return. It is stored when this returns its id."""
        return await self._applied("POST", wanted_return(order_id, quantities, **fields))

    async def change(self, id: str, **changes: Any) -> None:
        """Change a return. The change is stored when this returns."""
        await self._applied("PUT", {"id": id, **changes})

    async def _applied(self, method: str, body: Json) -> str:
        (result,) = await Facade(self.http).command(method, RETURNS, body)
        assert result["outcome"] == "applied", result
        id: str = result["id"]
        return id

    async def get(self, id: str) -> Json | None:
        """One return; None if it is unknown."""
        return await self._known(f"{RETURNS}/{id}")

    async def _known(self, path: str) -> Json | None:
        response = await retry_until_served(partial(self.http.get, path))
        return None if response.status_code == 404 else body_of(response, dict)

    async def existing(self, id: str) -> Json:
        """One return that must exist."""
        return body_of(await retry_until_served(partial(self.http.get, f"{RETURNS}/{id}")), dict)

    async def search(self, **search: Any) -> Json:
        """A page of returns."""
        page = body_of(await retry_until_served(partial(self.http.post, f"{RETURNS}/search", json=search)), dict)
        assert [name for name in page if name != "next"] == ["totalCount", "results"]
        return page

    async def found(self, field: str = "id", **search: Any) -> list[Any]:
        """One field of each return on a page."""
        return [row[field] for row in (await self.search(**search))["results"]]

    async def events(self, *return_ids: str) -> list[tuple[str, Json]]:
        """Type and data of the events about these returns, oldest first."""
        return [
            (kind_of(record), data)
            for record in await self.service.records("events")
            if (data := json.loads(record.value)).get("returnId") in return_ids
        ]

    async def wait_for_events(self, id: str, *kinds: str) -> list[Json]:
        """Wait until a return has exactly these events, in this order. Returns their data."""
        events = await eventually(partial(self.events, id), lambda events: len(events) >= len(kinds))
        assert [kind for kind, _ in events] == list(kinds)
        return [data for _, data in events]
