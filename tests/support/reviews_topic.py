"""The compacted topic `reviews` as a sink reads it, and its expected content."""

import json
from datetime import datetime

from tests.support.service import Json, Service
from tests.support.waiting import eventually

_STATUSES = ("New", "Approved", "Rejected")


async def latest(service: Service) -> dict[str, Json]:
    """The newest value of each review that isn't deleted, by id."""
    newest = {record.key.decode(): record.value for record in await service.records("reviews")}
    return {id: json.loads(value) for id, value in newest.items() if value is not None}


async def stored(service: Service) -> dict[str, Json]:
    """The expected content of the topic: every field of every review in MongoDB, by id."""
    async with service.mongo() as database:
        found = database["reviews"].find({"_id": {"$type": "string"}, "createdDate": {"$type": "date"}})
        return {document["_id"]: _expected_value(document) async for document in found}


async def until_equal(service: Service) -> None:
    """Wait until the topic equals the database."""

    async def differences() -> list[tuple[str, Json | None, Json | None]]:
        topic, database = await latest(service), await stored(service)
        ids = sorted(topic.keys() | database.keys())
        return [(id, topic.get(id), database.get(id)) for id in ids if topic.get(id) != database.get(id)]

    await eventually(differences, lambda found: not found, deadline_s=120)


def _expected_value(document: Json) -> Json:
    same = ("entityType", "entityId", "entityName", "storeId", "userId", "userName", "title", "review")
    return {
        "id": document["_id"],
        **{name: document[name] for name in same},
        "rating": document["ratingHundredths"] / 100,
        "reviewStatus": _STATUSES[document["status"]],
        "reviewStatusId": document["status"],
        "createdDate": _timestamp(document["createdDate"]),
        "modifiedDate": _timestamp(document["modifiedDate"]),
        "moderator": document.get("moderator"),
        "moderationReason": document.get("moderationReason"),
        "reasonCode": document.get("reasonCode"),
        **{name: document.get(name, False) for name in ("verifiedPurchase", "incentivized")},
        **{name: document.get(name) for name in ("source", "language")},
        "reply": _expected_reply(document["reply"]) if document.get("reply") else None,
        **{name: document.get(name, 0) for name in ("helpful", "notHelpful", "reports")},
        "flags": document.get("flags", []),
        "images": [{"id": i["id"], "hidden": i.get("hidden", False)} for i in document.get("images", [])],
    }


def _expected_reply(reply: Json) -> Json:
    return reply | {name: _timestamp(reply[name]) for name in ("createdDate", "modifiedDate")}


def _timestamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"
