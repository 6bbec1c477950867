"""Shard keys: the fields by which a sharded cluster of MongoDB distributes what grows with traffic.

Each already identifies a document, so that an id is as unique over all shards as it is on one server, and stays taken
when a deletion shrinks its document to a placeholder. docs/scale.md has the consequences.
"""

from collections.abc import Mapping
from typing import Final

from pymongo import ASCENDING, HASHED

from storage import (
    audit,
    moderation_rules,
    objects,
    outbox,
    outcomes,
    planned_approvals,
    review_tokens,
    stores,
    unique_keys,
)
from storage.database import Database
from storage.durability import is_router
from storage.feedback import reports as feedback_reports
from storage.feedback import votes as feedback_votes
from storage.images import repository as images
from storage.orders import repository as orders
from storage.ratings import repository as ratings
from storage.reminders import repository as reminders
from storage.reviews import repository as reviews

_BY_ID: Final = {"_id": HASHED}
_BY_RANGE: Final = {"_id": ASCENDING}
"""For ids that are read or removed together by a common prefix, and are random from their first character on."""

SHARD_KEYS: Final[Mapping[str, Mapping[str, int | str]]] = {
    reviews.COLLECTION: _BY_ID,
    ratings.COLLECTION: {"entityType": ASCENDING, "entityId": ASCENDING},
    outcomes.COLLECTION: _BY_RANGE,
    outbox.COLLECTION: _BY_ID,
    audit.COLLECTION: _BY_ID,
    feedback_votes.COLLECTION: _BY_RANGE,
    feedback_reports.COLLECTION: _BY_ID,
    unique_keys.COLLECTION: _BY_ID,
    moderation_rules.TEXTS: _BY_ID,
    planned_approvals.COLLECTION: _BY_ID,
    images.COLLECTION: _BY_ID,
    objects.COLLECTION: _BY_ID,
    orders.COLLECTION: _BY_ID,
    reminders.CUSTOMERS: _BY_ID,
    review_tokens.COLLECTION: _BY_ID,
}
"""Keys by collection. The others stay on one shard: settings and waiting work are small; returns have numbers that are
unique in their store, and mails are claimed in the order in which they are due."""

_MADE_BY_WRITES: Final = (stores.COLLECTION, stores.SETTINGS)
"""Collections without indexes, created by their first documents, which a transaction over several shards can't do."""


async def shard(database: Database) -> list[str]:
    """Shard the collections of a cluster; returns their names, none on a replica set.

    Collections that are already sharded stay so. Needs an account with `clusterManager`; raises the driver's errors.
    """
    if not is_router(await database.command("hello")):
        return []
    there = await database.list_collection_names()
    for name in _MADE_BY_WRITES:
        if name not in there:
            await database.create_collection(name)
    for name, key in SHARD_KEYS.items():
        if HASHED in key.values():  # the others are a prefix of an existing index
            await database[name].create_index(list(key.items()))
        await database.client.admin.command("shardCollection", f"{database.name}.{name}", key=key)
    return list(SHARD_KEYS)
