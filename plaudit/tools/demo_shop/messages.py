"""The Kafka messages that create the demo shop, each with a fixed id."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

from domain.delivery import OutgoingMessage
from domain.places import entity_key
from domain.ratings import Entity
from domain.reviews import ReviewStatus
from domain.timestamps import timestamp
from messaging.envelope import Envelope
from messaging.json_values import present
from messaging.topics import Topic, TopicNames
from plaudit.tools.demo_shop.reviews import DemoReview
from storefront.demo_products import ENTITY_TYPE, PRODUCTS, STORE_ID, STORE_NAME, Product

_READERS: Final = 60
_MODERATOR: Final = "demo-moderator"
_TOPICS: Final = (
    Topic.OBJECT_UPDATES,
    Topic.ORDER_EVENTS,
    Topic.REVIEW_SUBMISSIONS,
    Topic.MODERATION_COMMANDS,
    Topic.REVIEW_FEEDBACK,
)


@dataclass(frozen=True, slots=True)
class DemoMessages:
    """Builds messages. `day` is the day that ages are counted from, `address` that of the service."""

    topics: TopicNames
    envelope: Envelope
    day: datetime
    address: str

    @property
    def topics_used(self) -> Sequence[str]:
        """The names of all topics that the messages go to."""
        return [self.topics.name(each) for each in _TOPICS]

    def of_products(self) -> list[OutgoingMessage]:
        """Facts of the products, and one order without a review for each."""
        return [*map(self._facts, PRODUCTS), *map(self._unreviewed_order, PRODUCTS)]

    def orders(self, review: DemoReview) -> Iterator[OutgoingMessage]:
        """The order by the author of the review, if they bought the product."""
        if review.is_bought:
            bought = review.written(self.day) - timedelta(days=12)
            yield self._order(
                f"{review.id}-order", review.author_id, review.author, review.language, review.product, bought
            )

    def submission(self, review: DemoReview, photos: Collection[str]) -> OutgoingMessage:
        """The review as its author wrote it."""
        entity = _entity(review.product)
        fields = {
            "id": review.id,
            "storeId": STORE_ID,
            "userId": review.author_id,
            "userName": review.author,
            "EntityId": entity.id,
            "EntityType": entity.type,
            "EntityName": review.product.name,
            "title": review.title,
            "review": review.text,
            "rating": review.stars,
            "source": "import",
            "writtenDate": timestamp(review.written(self.day)),
            "images": list(photos),
        }
        value = {name: each for name, each in fields.items() if each is not None and each != []}
        return self._message(Topic.REVIEW_SUBMISSIONS, entity_key(entity), "review.submission", value, review.id)

    def past(self, review: DemoReview, command_id: str) -> Iterator[OutgoingMessage]:
        """The decision on a review, the shop's reply and the votes of readers; nothing for a new one."""
        if review.status is ReviewStatus.NEW:
            return
        written = review.written(self.day)
        yield self._decision(review, command_id, written + timedelta(hours=5))
        if review.reply:
            moment = timestamp(written + timedelta(hours=29))
            dates = {"createdDate": moment, "modifiedDate": moment}
            yield self._feedback(review, "reply", text=review.reply, author=STORE_NAME, **dates)
        chance = Random(f"{review.id}-votes")  # noqa: S311 - the same readers each time
        readers = chance.sample(range(_READERS), min(_READERS, review.helpful + review.not_helpful))
        for place, reader in enumerate(readers):
            voter = f"demo-reader-{reader}"
            yield self._feedback(review, "vote", userId=voter, helpful=place < review.helpful)

    def _decision(self, review: DemoReview, command_id: str, at: datetime) -> OutgoingMessage:
        restored = {
            "status": review.status.label,
            "modifiedDate": timestamp(at),
            "source": "import",
            "language": review.language,
        }
        fields = {
            "action": "restore",
            "ids": [review.id],
            "moderator": _MODERATOR,
            "reasonCode": review.reason_code,
            "commandId": command_id,
            "restored": restored,
        }
        value = present(fields)
        return self._message(Topic.MODERATION_COMMANDS, review.id, "review.moderation", value, f"{review.id}-decision")

    def _feedback(self, review: DemoReview, action: str, **fields: Any) -> OutgoingMessage:
        value = {"action": action, "reviewId": review.id, **fields}
        id = f"{review.id}-{action}-{fields.get('userId', '')}"
        return self._message(Topic.REVIEW_FEEDBACK, review.id, "review.feedback", value, id)

    def _facts(self, product: Product) -> OutgoingMessage:
        entity = _entity(product)
        value = {
            "entityType": entity.type,
            "entityId": entity.id,
            "storeId": STORE_ID,
            "name": product.name,
            "url": f"{self.address.rstrip('/')}/demo/{product.id}",
            "imageUrl": f"{self.address.rstrip('/')}/demo/static/{product.kind}.svg",
            "gtins": [product.gtin],
            "skus": [product.sku],
            "brands": [product.brand],
        }
        return self._message(Topic.OBJECT_UPDATES, entity_key(entity), "object.update", value, f"demo-{product.id}")

    def _unreviewed_order(self, product: Product) -> OutgoingMessage:
        id = f"demo-{product.id}-order"
        return self._order(id, f"demo-{product.id}-buyer", "Robin Ash", "en", product, self.day - timedelta(days=14))

    def _order(
        self, id: str, customer_id: str | None, name: str | None, language: str, product: Product, at: datetime
    ) -> OutgoingMessage:
        moment = timestamp(at)
        line = {"id": "1", "productId": product.id, "name": product.name, "quantity": 1, "price": float(product.price)}
        value = {
            "id": id,
            "number": id.upper(),
            "status": "Complete",
            "storeId": STORE_ID,
            "customerId": customer_id,
            "customerName": name,
            "customerEmail": f"{customer_id}@example.org",
            "languageCode": language,
            "currency": "EUR",
            "createdDate": moment,
            "modifiedDate": moment,
            "items": [line],
        }
        return self._message(Topic.ORDER_EVENTS, id, "order.event", value, id)

    def _message(self, topic: Topic, key: str, kind: str, value: dict[str, Any], id: str) -> OutgoingMessage:
        return self.envelope.wrap(self.topics.name(topic), key, kind, value, id=id)


def _entity(product: Product) -> Entity:
    return Entity(ENTITY_TYPE, product.id)
