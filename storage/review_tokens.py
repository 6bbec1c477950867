"""Review tokens: the keys that they are signed by, and the order lines for which they were used."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pymongo import ASCENDING, IndexModel
from pymongo.errors import BulkWriteError

from domain.reminders import ReviewableOrder, ReviewedProduct
from domain.review_tokens import VALIDITY, ReviewToken, TokenLine
from storage.database import Database, Document, is_duplicate
from storage.made_up_keys import MadeUpKey

COLLECTION: Final = "usedReviewTokens"

_KEY: Final = "reviewTokenKey"

INDEXES: Final = [
    IndexModel([("_id.orderId", ASCENDING)], name="order"),
    IndexModel([("customerId", ASCENDING)], name="customer", sparse=True),
    # By then every token of the line has expired: once it is used, no other is issued for it.
    IndexModel([("usedAt", ASCENDING)], name="expiry", expireAfterSeconds=2 * int(VALIDITY.total_seconds())),
]


@dataclass(frozen=True, slots=True)
class UsedToken:
    """A token, and the review that it was used for."""

    token: ReviewToken
    review_id: str


@dataclass(frozen=True, slots=True)
class TokenUse:
    """The use of a token, as it is on record."""

    line: TokenLine
    product_id: str
    review_id: str
    at: datetime


class ReviewTokenRepository:
    """Keeps the keys of review tokens, and each token's one use.

    `configured` are the keys of the configuration, the first of which signs; without any it is one that is made up
    once and kept in the database.
    """

    def __init__(self, database: Database, configured: Sequence[bytes] = ()) -> None:
        self._used = database[COLLECTION]
        self._made_up = MadeUpKey(database, _KEY)
        self._configured = tuple(configured)

    async def keys(self) -> Sequence[bytes]:
        """The keys by which tokens are valid; none where none has been made up yet."""
        if self._configured:
            return self._configured
        made_up = await self._made_up.get()
        return (made_up.encode(),) if made_up else ()

    async def signing_key(self) -> bytes:
        """The key to sign by, made up if there is none."""
        return self._configured[0] if self._configured else (await self._made_up.make()).encode()

    async def use(self, tokens: Collection[UsedToken]) -> tuple[set[TokenLine], dict[TokenLine, str]]:
        """Use tokens up: the lines that are used from now on, and the review of each line that was used before.

        Under any concurrency a line is used for one review alone, and stays so.
        """
        if not tokens:
            return set(), {}
        lines = {used.token.line for used in tokens}
        documents = [_document(used, datetime.now(UTC)) for used in tokens]
        try:
            await self._used.insert_many(documents, ordered=False)
        except BulkWriteError as error:
            if not is_duplicate(error):
                raise
            failed = {failure["index"] for failure in error.details["writeErrors"]}
            fresh = {_line(d["_id"]) for index, d in enumerate(documents) if index not in failed}
            holders = await self.used(lines)
            # Given back meanwhile.
            free = [used for used in tokens if used.token.line not in holders]
            fresh_too, holders_too = await self.use(free)
            return fresh | fresh_too, holders | holders_too
        return lines, {used.token.line: used.review_id for used in tokens}

    async def release(self, tokens: Iterable[UsedToken]) -> None:
        """Give tokens back whose reviews could not be stored."""
        for used in tokens:
            await self._used.delete_one({"_id": _id(used.token.line), "reviewId": used.review_id})

    async def used(self, lines: Collection[TokenLine]) -> dict[TokenLine, str]:
        """The review of each of these lines that were used."""
        if not lines:
            return {}
        found = self._used.find({"_id": {"$in": [*map(_id, lines)]}}, {"reviewId": 1})
        return {_line(document["_id"]): document["reviewId"] async for document in found}

    async def reviewed(self, orders: Iterable[ReviewableOrder]) -> set[ReviewedProduct]:
        """The reviews of lines of these orders by token, also such as were deleted since: of who used it, and of the
        order's customer of now, as another token of the line would be refused."""
        by_id = {order.id: order for order in orders}
        reviewed = set[ReviewedProduct]()
        async for document in self._used.find({"_id.orderId": {"$in": list(by_id)}}):
            line, product = _line(document["_id"]), document["productId"]
            if "customerId" in document:
                reviewed.add(ReviewedProduct(document["storeId"], document["customerId"], product))
            order = by_id[line.order_id]
            if order.customer.id and any((i.line_id, i.product_id) == (line.line_id, product) for i in order.items):
                reviewed.add(ReviewedProduct(order.store_id, order.customer.id, product))
        return reviewed

    async def of_customer(self, customer_id: str) -> list[TokenUse]:
        """The tokens that a customer used, by order and line."""
        found = self._used.find({"customerId": customer_id}).sort("_id")
        return [TokenUse(_line(d["_id"]), d["productId"], d["reviewId"], d["usedAt"]) async for d in found]

    async def forget_customer(self, customer_id: str) -> int:
        """Take a customer out of the tokens that they used, which stay used; returns how many there were."""
        forgotten = await self._used.update_many({"customerId": customer_id}, {"$unset": {"customerId": ""}})
        return forgotten.modified_count


def _id(line: TokenLine) -> Document:
    return {"orderId": line.order_id, "lineId": line.line_id}


def _line(id: Any) -> TokenLine:
    return TokenLine(id["orderId"], id["lineId"])


def _document(used: UsedToken, now: datetime) -> Document:
    return {
        "_id": _id(used.token.line),
        "reviewId": used.review_id,
        "storeId": used.token.store_id,
        "productId": used.token.product_id,
        "customerId": used.token.customer_id,
        "usedAt": now,
    }
