"""Checks returns, and the quantities of each order that are left."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence

from tests.chaos.actors import RETURNS
from tests.chaos.clients import Http
from tests.chaos.difference import Difference, Kind
from tests.chaos.model import Model
from tests.chaos.reading import pages, parts


async def wrong_returns(http: Http, model: Model) -> list[Difference]:
    """Each return is there with the expected fields and a number of its own, no others are, and each order has the
    expected quantities left.

    Of competing returns of one order, exactly as many must be granted as the order has pieces.
    """
    found: list[Difference] = []
    shown = {row["id"]: row async for row in pages(http, f"{RETURNS}/search")}
    numbers = Counter((row["order"].get("storeId"), row["number"]) for row in shown.values())
    found += [
        Difference("wrong", n[1], f"{c} returns of a store have the number {n}") for n, c in numbers.items() if c > 1
    ]
    rushed: dict[str, list[str]] = defaultdict(list)
    for order, (_, ids) in model.rushes.items():
        rushed[order] = [id for id in ids if shown.pop(id, None)]
    for id, wanted in model.returns.items():
        row = shown.pop(id, None)
        if row is None:
            found.append(Difference("lost", id, f"return is missing, expected {wanted}"))
            continue
        lines = {line["orderLineItemId"]: line["quantity"] for line in row["lineItems"]}
        newest = model.orders[wanted.order].newest
        actual = row["orderId"], lines, row["status"], row["resolution"], row["order"]["note"]
        expected = wanted.order, dict(wanted.lines), wanted.status, wanted.resolution, newest["note"]
        if actual != expected:
            found.append(Difference("wrong", id, f"return {actual}, expected {expected}"))
    found += [Difference("duplicated", id, f"unexpected return: {row}") for id, row in shown.items()]
    left = await available_quantities(http, list(model.orders))
    for order, quantities in left.items():
        expected_quantities = model.available(order)
        if order in model.rushes:
            quantity, ids = model.rushes[order]
            granted = min(quantity, len(ids))
            expected_quantities = {"line0": quantity - granted}
            if len(rushed[order]) != granted:
                kind: Kind = "lost" if len(rushed[order]) < granted else "duplicated"
                found.append(Difference(kind, order, f"{len(rushed[order])} returns granted, expected {granted}"))
        if quantities != expected_quantities:
            what = f"available {quantities}, expected {expected_quantities}"
            found.append(Difference("lost" if quantities is None else "wrong", order, what))
    return found


async def available_quantities(http: Http, orders: Sequence[str]) -> dict[str, dict[str, int] | None]:
    """Quantities that can still be returned, by order and line; None if the order isn't found."""
    shown: dict[str, dict[str, int] | None] = {}

    async def ask(order: str) -> None:
        answer = await http.send("GET", f"{RETURNS}/available-quantities/{order}")
        shown[order] = answer.body if answer.status == 200 else None

    for part in parts(orders, 8):
        await asyncio.gather(*map(ask, part))
    return shown
