"""A valid, complete body for each operation that has one, and valid, complete messages for each consumed topic."""

from typing import Any, Final

from messaging.topics import Topic
from tests.support.service import Json

IMAGE: Final = "0190b8a2-5c1e-7d3a-9b61-2f4d8e0c7a11"
REVIEW: Final[Json] = {
    "id": "r",
    "storeId": "s",
    "userId": "u",
    "userName": "Anna",
    "EntityId": "e",
    "EntityType": "Product",
    "EntityName": "Camera",
    "title": "Good",
    "review": "Sharp: to the edges",
    "rating": 4,
    "token": "a.b",
    "incentivized": True,
    "language": "de-AT",
    "images": [IMAGE],
    "pendingImages": 1,
}
PAGE: Final[Json] = {"take": 5, "skip": 2}
NEW_LINES: Final[list[Json]] = [{"orderLineItemId": "l", "quantity": 2, "reason": "Scratched", "price": 1.5}]
SETTINGS: Final[Json] = {
    "ratingCalculationMethod": "wilson",
    "reminder": {
        "enabled": True,
        "cron": "0 * * * *",
        "daysInStatus": 3,
        "orderStatus": "Complete",
        "maxEmailsPerCustomer": 1,
        "maxAgeDays": 5,
        "limitPeriodDays": 90,
    },
    "returnStatuses": ["New", "Canceled", "Checked"],
    "returnNumberTemplate": "R{date:%y%m%d}-{sequence:05d}",
}
STORE: Final[Json] = {
    "name": "Shop",
    "email": "Shop <shop@example.org>",
    "languages": ["en"],
    "settings": {
        "reviewsEnabled": True,
        "anonymousReviewsAllowed": True,
        "purchaseRequired": False,
        "ratingCalculationMethod": "average",
        "returnNumberTemplate": "R{date:%y%m%d}-{sequence:05d}",
        "oneReviewPerCustomer": True,
        "editsKeepStatus": True,
        "reviewUrl": "https://shop.example/review?token={token}",
        "storefrontOrigins": ["https://shop.example"],
        "moderationRules": [
            {"id": "w", "kind": "words", "outcome": "hold", "words": ["spam"]},
            {"id": "l", "kind": "languages", "outcome": "flag", "languages": ["en"]},
            {"id": "s", "kind": "stars", "outcome": "hold", "below": 2, "above": 4, "publishAfterHours": 24},
        ],
    },
}
TEMPLATE: Final[Json] = {"subject": "Hello", "text": "Hello", "html": "<p>Hello</p>"}
NEW_RETURN: Final[Json] = {
    "id": "r",
    "orderId": "o",
    "status": "Approved",
    "resolution": "Refund",
    "lineItems": NEW_LINES,
}
LINES: Final[list[Json]] = [{"id": "rl", **line} for line in NEW_LINES]
RETURN_CHANGE: Final[Json] = {**NEW_RETURN, "expectedStatus": "New", "lineItems": LINES}
IDS: Final = ["a", "b"]
MODERATION: Final[Json] = {
    **{"action": "reject", "moderator": "eve", "reason": "Bought", "reasonCode": "fake", "commandId": "c"},
    **{"expectedStatus": "New", "stores": ["s"]},
}
RESTORATION: Final[Json] = {
    "action": "restore",
    "restored": {
        **{"status": "New", "modifiedDate": "2026-03-14T09:26:53Z", "flags": IDS},
        **{"source": "api", "language": "en", "verifiedPurchase": True},
    },
}
OF_REVIEW: Final[Json] = {"kind": "moderation", "reviewId": "r", "source": [1, 2, 3]}
EDITOR: Final[Json] = {"right": "author", "name": "eve", "stores": ["s"]}
TEXT: Final = "0" * 64
NAMED: Final[Json] = {"ids": IDS, "textHashes": {"a": TEXT, "b": TEXT}}
BEYOND_HTTP: Final[Json] = {
    **{"commandId": "c", "source": "import", "writtenDate": "2020-03-14T09:26:53Z", "via": "api", "formerId": "f"},
    "hiddenImages": [IMAGE],
    "editor": EDITOR,
}
COMMAND: Final[Json] = {"user": "u", "commandId": "c", "stores": ["s"]}
ORDER: Final[Json] = {
    "id": "o",
    "number": "N",
    "status": "New",
    "isCancelled": True,
    "storeId": "s",
    "customerId": "u",
    "customerName": "Anna",
    "customerEmail": "a@example.com",
    "languageCode": "en",
    "createdDate": "2026-03-14T09:26:53Z",
    "modifiedDate": "2026-03-14T09:26:53Z",
    "items": [{"id": "l", "productId": "p", "name": "Camera", "quantity": 2, "price": 1.5}],
}
MAIL: Final[Json] = {
    **{"id": "m", "template": "T", "to": "a@example.com", "from": "s@example.com"},
    **{"subject": "S", "text": "T", "html": "H", "languageCode": "en", "storeId": "s", "orderId": "o"},
    **{"orderNumber": "N", "customerId": "u", "items": [{"productId": "p", "name": "Camera"}]},
}

SEARCH: Final[Json] = {
    **{"reviewStatus": "New", "entityType": "Product", "entityIds": IDS, "storeId": "s", "userId": "u"},
    **{"searchPhrase": "x", "startDate": "2026-03-14T09:26:53Z", "endDate": "2026-03-15T09:26:53Z"},
    **{"startRating": 1.5, "endRating": 4, "sort": "rating", **PAGE, "verifiedPurchase": False, "language": "de-AT"},
    **{"ids": IDS, "objectIds": IDS, "keyword": "x", "after": "a", "withTotal": False},
    **{"reported": True, "flagged": True, "hasImages": False, "unseenImages": True},
}
RETURN_SEARCH: Final[Json] = {
    **{"orderId": "o", "objectIds": IDS, "ids": IDS, "keyword": "x", "sort": "number", "responseGroup": "None"},
    **{"status": ["New"], "customerId": "u", "storeId": "s", "after": "a", "withTotal": False, **PAGE},
    **{"startDate": "2026-03-14T09:26:53Z", "endDate": "2026-03-15T09:26:53Z"},
}
VIEWED: Final[Json] = {"customerOrderId": "o", "storeId": "s"}
OBJECT: Final[Json] = {
    **{"entityType": "Product", "entityId": "e", "storeId": "s", "name": "Camera", "url": "https://shop.example/e"},
    **{"imageUrl": "https://shop.example/e.png", "gtins": ["1"], "mpns": ["2"], "skus": ["3"], "brands": ["B"]},
    "reviewsEnabled": False,
}
VERDICT: Final[Json] = {
    **{"reviewId": "r", "textHash": TEXT, "source": "ai", "verdict": "flag", "labels": ["spam"], "score": 0.5},
}

REPLY: Final[Json] = {"text": "Thanks", "author": "Shop"}
REPORT: Final[Json] = {
    **{"reason": "off-topic", "explanation": "Of another lens", "name": "Berta", "email": "b@example.org"},
    "goodFaith": True,
}
FEEDBACK: Final[Json] = {"reviewId": "r", "commandId": "c", "stores": ["s"], "textHash": TEXT}
OLD_REPORT: Final[Json] = {
    "reportId": "o",
    "reportedDate": "2026-03-14T09:26:53Z",
    "settled": {"action": "reject", "moderator": "eve", "at": "2026-03-15T09:26:53Z"},
}
DATES: Final[Json] = {"createdDate": "2026-03-14T09:26:53Z", "modifiedDate": "2026-03-15T09:26:53Z"}

STOREFRONT: Final = "/storefront/v1/{storeId}/{entityType}/{entityId}"
BODIES: Final[dict[str, Any]] = {
    f"POST {STOREFRONT}/reviews": {
        **{name: REVIEW[name] for name in ("rating", "title", "review", "userName", "language", "images", "token")},
        **{"stamp": "1.a", "website": "x", "check": "e30="},
    },
    f"POST {STOREFRONT}/votes": {"reviewId": "r", "helpful": False, "voter": "0123456789abcdef"},
    f"DELETE {STOREFRONT}/votes": {"reviewId": "r", "voter": "0123456789abcdef"},
    f"POST {STOREFRONT}/reports": {**REPORT, "reviewId": "r"},
    "POST /api/customerReviews/{id}/reply": REPLY,
    "POST /api/customerReviews/{id}/votes": {"userId": "u", "helpful": True},
    "DELETE /api/customerReviews/{id}/votes": {"userId": "u"},
    "POST /api/customerReviews/{id}/claim": {"desk": "d"},
    "POST /api/customerReviews/{id}/reports": REPORT,
    "POST /api/customerReviews": [REVIEW],
    "POST /api/customerReviews/reviewList": SEARCH,
    "POST /api/customerReviews/search": SEARCH,
    "POST /api/customerReviews/counts": SEARCH,
    "POST /api/customerReviews/viewedRequestReview": VIEWED,
    "POST /api/customerReviews/changes": {"modifiedDate": "2026-03-14T09:26:53Z"},
    "POST /api/customerReviews/approve": NAMED,
    "POST /api/customerReviews/reject": NAMED,
    "POST /api/customerReviews/reset": NAMED,
    "DELETE /api/customerReviews": NAMED,
    "POST /api/rating/entityRating": {"entityIds": IDS, "entityType": "Product", "histogram": True},
    "POST /api/rating/objects": {"searchPhrase": "x", "storeId": "s", "take": 5, "after": "a"},
    "POST /api/return/search": RETURN_SEARCH,
    "POST /api/return/counts": RETURN_SEARCH,
    "POST /api/orders/search": {
        **{"ids": IDS, "customerId": "u", "number": "N", "keyword": "x", "storeId": "s", "entityType": "Product"},
        **{"entityId": "e", "take": 5, "after": "a"},
    },
    "POST /api/return": NEW_RETURN,
    "POST /api/deadLetters/replay": {"places": ["mail-commands/0/1"], "value": "{}", "dryRun": True},
    "PUT /api/return": RETURN_CHANGE,
    "PUT /api/settings": SETTINGS,
    "PUT /api/stores/{storeId}": {**STORE, "id": "s"},
    "POST /api/stores/{storeId}/moderationRules/try": {
        "reviews": [
            {
                **{"id": "r", "userId": "u", "userName": "Ann", "EntityId": "e", "EntityType": "Product"},
                **{
                    "title": "Good",
                    "review": "Sharp: to the edges",
                    "rating": 4,
                    "verifiedPurchase": True,
                    "language": "en",
                },
            }
        ],
        "rules": STORE["settings"]["moderationRules"],
    },
    "PUT /api/notificationTemplates/{name}": TEMPLATE,
    "POST /api/notificationTemplates/{name}/preview": TEMPLATE,
}
"""A body with all its fields for each operation that has one."""

MESSAGES: Final[dict[Topic, list[Any]]] = {
    Topic.REVIEW_SUBMISSIONS: [{**REVIEW, **BEYOND_HTTP}, [REVIEW, {**REVIEW, **BEYOND_HTTP}]],
    Topic.MODERATION_COMMANDS: [{**MODERATION, **NAMED}, {**RESTORATION, "ids": IDS}],
    Topic.REVIEW_FEEDBACK: [
        {**FEEDBACK, **REPLY, **DATES, "action": "reply", "moderator": "eve"},
        {**FEEDBACK, "action": "remove-reply", "moderator": "eve"},
        {**FEEDBACK, "action": "vote", "userId": "u", "helpful": False},
        {**FEEDBACK, "action": "remove-vote", "userId": "u"},
        {**FEEDBACK, **REPORT, **OLD_REPORT, "action": "report", "userId": "u"},
    ],
    Topic.REVIEW_CHANGES: [
        {**MODERATION, **OF_REVIEW, "textHash": TEXT, "commandMark": "1 a b"},
        {**RESTORATION, **OF_REVIEW},
        {"kind": "recount", "entityType": "Product", "entityId": "e"},
        {"kind": "recount-store", "storeId": "s", "commandId": "c"},
    ],
    Topic.MODERATION_VERDICTS: [VERDICT],
    Topic.ORDER_EVENTS: [ORDER],
    Topic.RETURN_COMMANDS: [
        {**COMMAND, "action": "create", "return": NEW_RETURN},
        {**COMMAND, "action": "update", "return": RETURN_CHANGE},
        {**COMMAND, "action": "delete", "return": {"id": "r"}},
    ],
    Topic.REMINDER_COMMANDS: [
        {**VIEWED, "action": "viewed", "customerId": "u", "stores": ["s"], "commandId": "c"},
    ],
    Topic.OBJECT_UPDATES: [OBJECT],
    Topic.STORE_UPDATES: [
        {**STORE, "id": "s", "user": "u", "commandId": "c"},
        {"generalSettings": SETTINGS, "user": "u", "commandId": "c"},
        {
            "notificationTemplate": {
                **{"name": "OrderReviewRequest", "storeId": "s", "languageCode": "en", "deleted": True},
                **TEMPLATE,
            },
            "user": "u",
            "commandId": "c",
        },
    ],
    Topic.IMAGE_UPLOADS: [{"id": IMAGE, "digest": "0" * 32, "uploader": "u", "exported": True, "commandId": "c"}],
    Topic.IMAGE_COMMANDS: [
        {
            **{"action": "hide", "imageId": IMAGE, "reviewId": "r", "moderator": "eve", "reason": "Plates"},
            **{"stores": ["s"], "commandId": "c"},
        }
    ],
    Topic.ENDED_SESSIONS: [{"sessionId": "s"}],
    Topic.MAIL_COMMANDS: [MAIL],
    Topic.DEAD_LETTER_COMMANDS: [
        {"place": "mail-commands/0/1", "value": "{}", "moderator": "eve", "commandId": "c"},
    ],
}
"""Messages with all their fields for each consumed topic."""
