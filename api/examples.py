"""Examples for the OpenAPI document, with values from a shop."""

from typing import Any, Final

_ID: Final = "0195e2c4-5d6f-7a31-9b1e-3f0c2a7d8e01"

SUBMISSION: Final[list[dict[str, Any]]] = [
    {
        "storeId": "Electronics",
        "userId": "c2e5d1a4",
        "userName": "Anna Berg",
        "EntityId": "9cbd8f316e254a679ba34a900fccb076",
        "EntityType": "Product",
        "EntityName": "3DR Solo Quadcopter",
        "title": "Flies like a dream",
        "review": "Steady in the wind, and the battery lasts as long as they say.",
        "rating": 5,
    }
]
SEARCHES: Final[dict[str, Any]] = {
    "All reviews": {"reviewStatus": None, "sort": "", "take": 20, "skip": 0},
    "Awaiting moderation": {
        "reviewStatus": "New",
        "entityType": "Product",
        "searchPhrase": "battery",
        "sort": "createdDate:desc",
        "take": 20,
        "skip": 0,
    },
}
REVIEW_IDS: Final = [_ID]
NAMED_REVIEWS: Final = {
    "ids": [_ID],
    "textHashes": {_ID: "05f0700e2d99dc91710953b758f9c0c7d3337ac8bf561d6484ca81ea73876fbb"},
}
DELETION: Final = {"ids": [_ID]}
REPLY: Final = {"text": "Thank you. A longer cable is on its way to you.", "author": "The Electronics team"}
VOTE: Final = {"userId": "c2e5d1a4", "helpful": True}
VOTER: Final = {"userId": "c2e5d1a4"}
CLAIM: Final = {"desk": "7d0f2a"}
REPORT: Final = {
    "reason": "personal-data",
    "explanation": "The second sentence has my telephone number.",
    "name": "Berta Holm",
    "email": "berta@example.org",
    "goodFaith": True,
}
VIEWED_REQUEST: Final = {"customerOrderId": "8b4e3c1f5a6d4e0f9c2b7a1d3e5f6a7b", "storeId": "Electronics"}
CHANGES: Final = {"modifiedDate": "2022-10-04T00:00:00Z"}
ENTITY_RATING: Final = {"entityIds": ["9cbd8f316e254a679ba34a900fccb076"], "entityType": "Product"}
RATED_OBJECTS: Final[dict[str, Any]] = {
    "By words of the name": {"searchPhrase": "quadcopter"},
    "Of a store": {"storeId": "Electronics", "take": 50},
}
SETTINGS: Final = {"ratingCalculationMethod": "wilson", "reminder": {"enabled": True, "daysInStatus": 14}}
STORE: Final = {
    "name": "Electronics",
    "languages": ["en-US"],
    "settings": {"reviewsEnabled": True, "anonymousReviewsAllowed": True, "purchaseRequired": False},
}
RULE_TRIAL: Final[dict[str, Any]] = {
    "reviews": [
        {"review": "Sharp pictures.", "rating": 5},
        {"review": "Write to me at www.example.com", "rating": 4},
    ],
    "rules": [
        {"id": "links", "kind": "links", "outcome": "hold"},
        {"id": "good", "kind": "stars", "outcome": "approve", "above": 3},
    ],
}
REPLAYS: Final[dict[str, Any]] = {
    "As they are": {"places": ["review-submissions/3/17", "review-submissions/3/18"]},
    "Mended": {
        "places": ["review-submissions/3/17"],
        "value": '{"EntityId": "1", "EntityType": "Product", "review": "Good", "rating": 5}',
    },
    "Report what would happen": {"places": ["review-submissions/3/17"], "dryRun": True},
}
TEMPLATE: Final = {"subject": "{{ customer.name | default: 'Hello' }}, how do you like your order {{ order.number }}?"}
RETURN_SEARCHES: Final[dict[str, Any]] = {
    "Returns of an order": {
        "orderId": "8b4e3c1f5a6d4e0f9c2b7a1d3e5f6a7b",
        "objectIds": [],
        "keyword": "",
        "sort": "Ascending",
        "skip": 0,
        "take": 20,
    },
    "How many are approved": {"keyword": "Approved", "take": 0},
    "The oldest that wait": {"status": ["New", "Approved"], "sort": "createdDate:asc", "withTotal": False},
}
ORDER_SEARCHES: Final[dict[str, Any]] = {
    "Orders of a customer": {"customerId": "c2e5d1a4", "storeId": "Electronics"},
    "By id, number or customer": {"keyword": "CO220314-00001"},
    "Who has bought it": {
        "customerId": "c2e5d1a4",
        "entityType": "Product",
        "entityId": "9cbd8f316e254a679ba34a900fccb076",
    },
}
NEW_RETURN: Final[dict[str, Any]] = {
    "orderId": "8b4e3c1f5a6d4e0f9c2b7a1d3e5f6a7b",
    "resolution": "Refund",
    "lineItems": [
        {"orderLineItemId": "d2f0a4c6e8b04f1b9a3c5d7e9f1b3d5f", "quantity": 1, "reason": "Arrived with a scratch"}
    ],
}
RETURN_CHANGES: Final[dict[str, Any]] = {
    "Approve": {"id": _ID, "status": "Approved", "resolution": "Money back"},
    "Other quantities": {
        "id": _ID,
        "lineItems": [{"orderLineItemId": "d2f0a4c6e8b04f1b9a3c5d7e9f1b3d5f", "quantity": 2}],
    },
}
