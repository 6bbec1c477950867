"""Examples of the messages that other systems publish, for the AsyncAPI document."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

_REVIEW: Final = {
    "storeId": "Electronics",
    "userId": "customer-1",
    "userName": "Anna Berg",
    "EntityId": "3dr-solo",
    "EntityType": "Product",
    "EntityName": "3DR Solo Quadcopter",
    "title": "Flies like a dream",
    "review": "Steady in the wind, and the battery lasts as long as they say.",
    "rating": 5,
}

EXAMPLES: Final[Mapping[str, Sequence[Any]]] = {
    "SubmittedReview": [_REVIEW],
    "SubmittedReviews": [[_REVIEW]],
    "ModerationCommand": [
        {"action": "approve", "ids": ["review-1"], "moderator": "berta"},
        {"action": "reject", "ids": ["review-2"], "moderator": "berta", "reasonCode": "spam"},
    ],
    "FeedbackCommand": [
        {"action": "reply", "reviewId": "review-1", "text": "Thank you.", "author": "The Electronics team"},
        {"action": "vote", "reviewId": "review-1", "userId": "customer-2", "helpful": True},
    ],
    "ModerationVerdict": [
        {
            "reviewId": "review-1",
            "textHash": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "source": "toxicity-1",
            "verdict": "hold",
            "labels": ["insult"],
            "score": 0.93,
        }
    ],
    "OrderEvent": [
        {
            "id": "order-1",
            "number": "CO-1001",
            "status": "Complete",
            "storeId": "Electronics",
            "customerId": "customer-1",
            "customerName": "Anna Berg",
            "customerEmail": "anna@example.org",
            "modifiedDate": "2026-03-14T09:30:00.000Z",
            "items": [
                {"id": "line-1", "productId": "3dr-solo", "name": "3DR Solo Quadcopter", "quantity": 1, "price": 899.99}
            ],
        }
    ],
    "ReminderCommand": [{"action": "viewed", "customerOrderId": "order-1"}],
    "ReturnCommand": [
        {
            "action": "create",
            "return": {
                "id": "return-1",
                "orderId": "order-1",
                "lineItems": [{"orderLineItemId": "line-1", "quantity": 1, "reason": "Arrived with a scratch"}],
            },
        },
        {"action": "update", "return": {"id": "return-1", "orderId": "order-1", "status": "Approved"}},
    ],
    "StoreUpdate": [{"id": "Electronics", "name": "Electronics", "settings": {"reviewsEnabled": True}}],
    "ObjectUpdate": [
        {
            "entityType": "Product",
            "entityId": "3dr-solo",
            "name": "3DR Solo Quadcopter",
            "url": "https://shop.example.org/3dr-solo",
            "gtins": ["4006381333931"],
        }
    ],
    "ImageCommand": [{"action": "hide", "imageId": "01890a5d-ac96-774b-bcce-b302099a8057", "reviewId": "review-1"}],
}
"""Values by the name of their message."""
