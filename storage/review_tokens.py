"""Review tokens: the keys that sign them, and the order lines for which they were used.

The id of a document consists of the ids of order and line, as in 0.1.0. Several lines of an order may share an id: for
the second product under it, and further ones, the product is a part of the document's id.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pymongo import ASCENDING, IndexModel, UpdateMany

from domain.reminders import ReviewableOrder, ReviewedProduct
from domain.review_tokens import VALIDITY, ReviewToken, TokenLine
from domain.timestamps import EPOCH
from storage.database import Database, Document
from storage.generated_keys import GeneratedKey
from storage.queries import insert_if_free, write_all
from storage.shapes import (
    DATE,
    STRING,
    TEXT_OR_NULL,
    Shape,
    check_whole,
    irrecoverable_field,
    read_as_stored,
    read_for_display,
)

COLLECTION: Final = "usedReviewTokens"

_KEY: Final = "reviewTokenKey"

INDEXES: Final = [
    IndexModel([("_id.orderId", ASCENDING)], name="order"),
    IndexModel([("customerId", ASCENDING)], name="customer", sparse=True),
    # By then every token of the line has expired: once one is used, no other is issued for it.
    IndexModel([("usedAt", ASCENDING)], name="expiry", expireAfterSeconds=2 * int(VALIDITY.total_seconds())),
]

USED_TOKEN: Final = Shape(
    COLLECTION,
    {
        "reviewId": irrecoverable_field(STRING, "?"),
        "storeId": irrecoverable_field(TEXT_OR_NULL, None),
        "productId": irrecoverable_field(STRING, "?"),
        "usedAt": irrecoverable_field(DATE, EPOCH),
    },
)


@dataclass(frozen=True, slots=True)
class UsedToken:
    """A token, and the review for which it was used."""

    token: ReviewToken
    review_id: str
    attempt: str
    """The attempt to store the review, which alone may release the token: another may follow while it is frozen."""


@dataclass(frozen=True, slots=True)
class TokenUse:
    """The recorded use of a token."""

    line: TokenLine
    review_id: str
    at: datetime


class ReviewTokenRepository:
    """Keeps the keys of review tokens, and the one use of each token.

    `configured` are the keys of the configuration: the first one signs. Without any, a key is generated once and kept
    in the database.
    """

    def __init__(self, database: Database, configured: Sequence[bytes] = ()) -> None:
        self._used = database[COLLECTION]
        self._generated_key = GeneratedKey(database, _KEY)
        self._configured = tuple(configured)

    async def keys(self) -> Sequence[bytes]:
        """The keys by which tokens are valid; none if none was generated yet."""
        if self._configured:
            return self._configured
        generated = await self._generated_key.get()
        return (generated.encode(),) if generated else ()

    async def signing_key(self) -> bytes:
        """The key that signs tokens, generated if there is none."""
        return self._configured[0] if self._configured else (await self._generated_key.get_or_create()).encode()

    async def take_over(self, tokens: Collection[UsedToken]) -> None:
        """Let earlier uses of tokens for the same reviews be those of the present attempt."""
        await write_all(
            self._used, [UpdateMany(_use_filter(used), {"$set": {"attempt": used.attempt}}) for used in tokens]
        )

    async def use(self, tokens: Collection[UsedToken]) -> tuple[set[TokenLine], dict[TokenLine, str]]:
        """Use tokens up. Returns the lines that were unused until now, and the review of each line, including those
        used before.

        Under any concurrency a line is used for one review alone, and stays so. Raises StoredDocumentError if the
        use of one of the lines is damaged.
        """
        lines = {used.token.line for used in tokens}
        fresh, holders = set[TokenLine](), await self.used(lines)
        # Repeat if some were released between insertion and look-up.
        while any(used.token.line not in holders for used in tokens):
            for id_of in (_id, _id_with_product):
                free = [used for used in tokens if used.token.line not in holders]
                if not free:
                    break
                fresh |= await self._insert([_document(id_of(used.token.line), used) for used in free])
                holders = await self.used(lines)
        return fresh, holders

    async def _insert(self, documents: Sequence[Document]) -> set[TokenLine]:
        """Insert documents whose ids are free; returns their lines."""
        taken = await insert_if_free(self._used, documents)
        return {_use(document).line for index, document in enumerate(documents) if index not in taken}

    async def release(self, tokens: Iterable[UsedToken]) -> None:
        """Release the tokens of reviews that could not be stored, unless a later attempt has taken them over."""
        for used in tokens:
            await self._used.delete_many({**_use_filter(used), "attempt": used.attempt})

    async def used(self, lines: Collection[TokenLine]) -> dict[TokenLine, str]:
        """The review of each of these lines that is used. Raises StoredDocumentError if the use of one is damaged."""
        if not lines:
            return {}
        found = [read_as_stored(COLLECTION, _use, each) async for each in self._used.find(_lines_filter(lines))]
        return {use.line: use.review_id for use in found if use.line in lines}

    async def reviewed(self, orders: Iterable[ReviewableOrder]) -> set[ReviewedProduct]:
        """The products reviewed by token for lines of these orders, even if the review was deleted since: by the
        customer who used it, and by the order's present customer, for whom other tokens of the line would be
        refused. Raises StoredDocumentError if the use of one of the lines is damaged."""
        by_id = {order.id: order for order in orders}
        reviewed = set[ReviewedProduct]()
        async for document in self._used.find({"_id.orderId": {"$in": list(by_id)}}):
            line = read_as_stored(COLLECTION, _use, document).line
            if "customerId" in document:
                reviewed.add(ReviewedProduct(document["storeId"], document["customerId"], line.product_id))
            order = by_id[line.order_id]
            if order.customer.id and any(
                TokenLine(order.id, item.line_id, item.product_id) == line for item in order.items
            ):
                reviewed.add(ReviewedProduct(order.store_id, order.customer.id, line.product_id))
        return reviewed

    async def of_customer(self, customer_id: str) -> list[TokenUse]:
        """The tokens that a customer used, by order and line."""
        found = self._used.find({"customerId": customer_id}).sort("_id")
        return [read_for_display(USED_TOKEN, _use, document) async for document in found]

    async def forget_customer(self, customer_id: str) -> int:
        """Remove a customer from the tokens that they used, which stay used; returns the number of tokens."""
        forgotten = await self._used.update_many({"customerId": customer_id}, {"$unset": {"customerId": ""}})
        return forgotten.modified_count


def _lines_filter(lines: Iterable[TokenLine]) -> Document:
    """The filter for documents that may be those of these lines."""
    return {"_id": {"$in": [id for line in lines for id in (_id(line), _id_with_product(line))]}}


def _use_filter(used: UsedToken) -> Document:
    """The filter for the use of a token for its review, by any attempt."""
    return {**_lines_filter([used.token.line]), "reviewId": used.review_id}


def _id(line: TokenLine) -> Document:
    return {"orderId": line.order_id, "lineId": line.line_id}


def _id_with_product(line: TokenLine) -> Document:
    return {**_id(line), "productId": line.product_id}


def _use(document: Document) -> TokenUse:
    id = document["_id"]
    # The id decides which line is used: a document with another product beside it is still that of this line.
    document = {**document, "productId": id["productId"]} if "productId" in id else document
    check_whole(USED_TOKEN, document)
    line = TokenLine(id["orderId"], id["lineId"], document["productId"])
    return TokenUse(line, document["reviewId"], document["usedAt"])


def _document(id: Document, used: UsedToken) -> Document:
    return {
        "_id": id,
        "reviewId": used.review_id,
        "storeId": used.token.store_id,
        "productId": used.token.product_id,
        "customerId": used.token.customer_id,
        "usedAt": datetime.now(UTC),
        "attempt": used.attempt,
    }
