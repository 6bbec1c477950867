"""Purchases, and the reviews that they verify, with one query for a whole batch."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import orjson

from domain.orders import NO_BODY, Order, Purchase, VerifiableReview
from domain.ratings import Entity
from storage.database import Database, Document, Session
from storage.orders.repository import COLLECTION
from storage.queries import ONE_ANSWER
from storage.reviews.ids import sound_identity_from
from storage.reviews.repository import COLLECTION as REVIEWS
from storage.reviews.shape import IS_REVIEW
from storage.shapes import READ_ERRORS, StoredDocumentError, log_damage

_PRODUCT_FIELD: Final = "productId"
_MOST_PRODUCTS: Final = 10_000
"""Maximum number of products in a query: a customer who stands for all of a shop's visitors can have reviewed any
number, whose ids would make the query larger than MongoDB accepts."""

_ITEM_LIST_NAMES: Final = ("items", "line_items", "lineitems")
"""The case-folded names of the list of lines, in the formats of orders."""
_ZERO_QUANTITY: Final = re.compile(r"\s*[+-]?0+(\.0*)?\s*")
"""The quantity 0 as written in orders, a number or a text."""


class PurchaseRepository:
    """Knows purchases from orders.

    `item_fields` has, by entity type, the field of an order's items that holds the id of the object. For a type without
    one, any order of the customer in the store counts. A line with the quantity 0 is no purchase.
    """

    def __init__(self, database: Database, item_fields: Mapping[str, str]) -> None:
        self._orders = database[COLLECTION]
        self._reviews = database[REVIEWS]
        self._item_fields = item_fields

    async def existing(self, wanted: Collection[Purchase]) -> set[Purchase]:
        """The purchases among these that were made, by an order that was not cancelled."""
        # Of a customer with thousands of orders, only those with the product are read.
        of_products = {each for each in wanted if self._item_fields.get(each.entity.type) == _PRODUCT_FIELD}
        ids = sorted({each.entity.id for each in of_products})
        has_product: Document = {"lines.productId": {"$in": ids}} if len(ids) <= _MOST_PRODUCTS else {}
        return await self._made(of_products, has_product) | await self._made({*wanted} - of_products, {})

    async def _made(self, wanted: Collection[Purchase], condition: Document) -> set[Purchase]:
        """The purchases among these that were made, by an order that meets the condition and was not cancelled."""
        if not wanted:
            return set()
        fields = {field for each in wanted if (field := self._item_fields.get(each.entity.type))}
        shown = {"customerId": 1, "storeId": 1, "lines.productId": 1, "lines.quantity": 1}
        if fields - {_PRODUCT_FIELD}:
            shown["body"] = 1
        found = self._orders.find(
            {
                "customerId": {"$in": sorted({purchase.customer_id for purchase in wanted})},
                "storeId": {"$in": list({purchase.store_id for purchase in wanted})},
                "isCancelled": {"$ne": True},
                **condition,
            },
            shown,
            batch_size=ONE_ANSWER,
        )
        bought: dict[tuple[str | None, str], set[tuple[str, str | None]]] = {}
        async for order in found:
            owner = (order.get("storeId"), order["customerId"])
            # A list of customers or stores, as in a damaged order, also matches the condition.
            if any(isinstance(each, list) for each in owner):
                continue
            held = bought.setdefault(owner, set())
            products = _products(order.get("lines"))
            for field in fields:
                # A damaged order proves what is left of it.
                with suppress(*READ_ERRORS):
                    held.update((field, id) for id in _item_ids(products, order.get("body") or NO_BODY, field))
        return {purchase for purchase in wanted if self._is_made(purchase, bought)}

    def proofs(self, orders: Iterable[Order], entity: Entity) -> set[str]:
        """The ids of those of these orders by which their customers have bought the object; never a cancelled one."""
        field = self._item_fields.get(entity.type)
        return {
            order.id
            for order in orders
            if not order.is_cancelled and (field is None or entity.id in _item_ids(order.products, order.body, field))
        }

    async def reviews_of(self, customers: Collection[str]) -> list[VerifiableReview]:
        """The reviews of these customers that purchases verify: all but those that a token has verified for good, and
        those whose identity is damaged."""
        if not customers:
            return []
        shown = dict.fromkeys(("entityType", "entityId", "storeId", "userId", "verifiedPurchase"), 1)
        condition = {"userId": {"$in": sorted(customers)}, "provenByToken": {"$ne": True}}
        reviews = []
        async for document in self._reviews.find(condition, shown):
            # No order waits for the repair of a review.
            try:
                reviews.append(_verifiable(document))
            except StoredDocumentError as error:
                log_damage("damaged review; no purchase verifies it", id=document["_id"], error=str(error))
        return reviews

    async def save_verification(self, reviews: Collection[VerifiableReview]) -> None:
        """Write the verification of reviews, which is no modification of them; deleted ones are left out."""
        bought = [review.id for review in reviews if review.is_verified]
        if bought:
            missing = {**_is_review(bought), "verifiedPurchase": {"$ne": True}}
            await self._reviews.update_many(missing, {"$set": {"verifiedPurchase": True}})
        others = [review.id for review in reviews if not review.is_verified]
        if others:
            marked = {**_is_review(others), "verifiedPurchase": True, "provenByToken": {"$ne": True}}
            await self._reviews.update_many(marked, {"$unset": {"verifiedPurchase": ""}})

    async def verify_for_good(self, review_ids: Collection[str], session: Session) -> None:
        """Verify reviews for good, by review tokens that came with edits of them."""
        if review_ids:
            proven = {"verifiedPurchase": True, "provenByToken": True}
            await self._reviews.update_many(_is_review(review_ids), {"$set": proven}, session=session)

    def _is_made(
        self, purchase: Purchase, bought: Mapping[tuple[str | None, str], set[tuple[str, str | None]]]
    ) -> bool:
        held = bought.get((purchase.store_id, purchase.customer_id))
        if held is None:
            return False
        field = self._item_fields.get(purchase.entity.type)
        return field is None or (field, purchase.entity.id) in held


def _verifiable(document: Document) -> VerifiableReview:
    entity, store_id, user_id = sound_identity_from(document)
    purchase = Purchase(store_id, str(user_id), entity)
    return VerifiableReview(document["_id"], purchase, document.get("verifiedPurchase", False))


def _is_review(ids: Collection[str]) -> Document:
    return {"_id": {"$in": list(ids)}, **IS_REVIEW}


def _products(lines: object) -> list[str | None]:
    """The products of an order's stored lines, without damaged lines and those with the quantity 0."""
    whole = [line for line in lines if isinstance(line, dict)] if isinstance(lines, list) else []
    return [line.get("productId") for line in whole if line.get("quantity") != 0]


def _item_ids(products: Sequence[str | None], body: bytes, field: str) -> list[str | None]:
    """The ids in this field of an order's items, from its products or from its body."""
    if field == _PRODUCT_FIELD:
        return [*products]
    content_by_name = {name.casefold(): content for name, content in (orjson.loads(body) or {}).items()}
    items = next((items for name in _ITEM_LIST_NAMES if isinstance(items := content_by_name.get(name), list)), ())
    return [
        str(content)
        for item in items
        if isinstance(item, dict) and _is_bought(item)
        for name, content in item.items()
        if name.casefold() == field.casefold() and content is not None
    ]


def _is_bought(item: Mapping[str, object]) -> bool:
    return not any(
        name.casefold() == "quantity" and _ZERO_QUANTITY.fullmatch(str(quantity)) for name, quantity in item.items()
    )
