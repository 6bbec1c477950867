"""Review tokens: the keys that sign them, and the order lines for which they were used.

The id of a document consists of the ids of order and line, as in 0.1.0. Several lines of an order may share an id: for
the second product under it, and further ones, the product is a part of the document's id.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pymongo import ASCENDING, IndexModel

from domain.reminders import ReviewableOrder, ReviewedProduct
from domain.review_tokens import VALIDITY, ReviewToken, TokenLine
from domain.timestamps import EPOCH
from storage.database import Database, Document, Session
from storage.generated_keys import GeneratedKey
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

    async def use(self, tokens: Collection[UsedToken], session: Session) -> None:
        """Use up tokens in a transaction, of several for one line the first, unless they are used already. Of two
        transactions that use a line, one is repeated.

        Raises StoredDocumentError if the use of one of the lines is damaged.
        """
        lines = {used.token.line for used in tokens}
        found = await self._found(lines, session)
        holders, taken = _holders(found, lines), {use.line[:2] for use in found}
        documents = []
        for used in tokens:
            line = used.token.line
            if line not in holders:
                holders[line] = used.review_id
                documents.append(_document(_id_with_product(line) if line[:2] in taken else _id(line), used))
                taken.add(line[:2])
        if documents:
            await self._used.insert_many(documents, ordered=False, session=session)

    async def used(self, lines: Collection[TokenLine], session: Session | None = None) -> dict[TokenLine, str]:
        """The review of each of these lines that is used. Raises StoredDocumentError if the use of one is damaged."""
        return _holders(await self._found(lines, session), lines)

    async def _found(self, lines: Collection[TokenLine], session: Session | None) -> list[TokenUse]:
        """The uses whose documents may be those of these lines."""
        if not lines:
            return []
        wanted = {"_id": {"$in": [id for line in lines for id in (_id(line), _id_with_product(line))]}}
        return [read_as_stored(COLLECTION, _use, each) async for each in self._used.find(wanted, session=session)]

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


def _holders(uses: Iterable[TokenUse], lines: Collection[TokenLine]) -> dict[TokenLine, str]:
    """The review of each of these lines that is used."""
    return {use.line: use.review_id for use in uses if use.line in lines}


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
    }
