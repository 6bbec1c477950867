"""Shard keys: the fields by which a sharded cluster of MongoDB spreads what grows with traffic.

Each is what tells a document from all others already, so an id is as unique over all shards as it is on one server,
and stays taken when its document shrinks to what a deletion leaves. docs/scale.md has what follows from that.
"""

from collections.abc import Mapping
from typing import Final

from pymongo import ASCENDING, HASHED

from storage import (
    audit,
    claims,
    feedback_reports,
    feedback_votes,
    images,
    moderation_rules,
    objects,
    orders,
    outbox,
    outcomes,
    ratings,
    reminders,
    review_tokens,
    reviews,
    stores,
)
from storage.database import Database
from storage.durability import is_router

_BY_ID: Final = {"_id": HASHED}
_BY_RANGE: Final = {"_id": ASCENDING}
"""Of ids that are read or removed together where they begin alike, and are random from their beginning on."""

SHARD_KEYS: Final[Mapping[str, Mapping[str, int | str]]] = {
    reviews.COLLECTION: _BY_ID,
    ratings.COLLECTION: {"entityType": ASCENDING, "entityId": ASCENDING},
    outcomes.COLLECTION: _BY_RANGE,
    outbox.COLLECTION: _BY_ID,
    audit.COLLECTION: _BY_ID,
    feedback_votes.COLLECTION: _BY_RANGE,
    feedback_reports.COLLECTION: _BY_ID,
    claims.COLLECTION: _BY_ID,
    moderation_rules.TEXTS: _BY_ID,
    moderation_rules.PUBLICATIONS: _BY_ID,
    images.COLLECTION: _BY_ID,
    objects.COLLECTION: _BY_ID,
    orders.COLLECTION: _BY_ID,
    reminders.CUSTOMERS: _BY_ID,
    review_tokens.COLLECTION: _BY_ID,
}
"""Keys by collection. The others stay whole on one shard: settings and what waits for a moment are small; returns have
numbers that are unique in their store, and mails are claimed in the order in which they are due."""

_MADE_BY_WRITES: Final = (stores.COLLECTION, stores.SETTINGS)
"""Collections without indexes, which their first documents make: not in a transaction of several shards."""


async def shard(database: Database) -> list[str]:
    """Spread the collections over the shards of a cluster; returns their names, none on a replica set.

    Those that are spread already stay so. Takes an account that may (`clusterManager`); raises what the driver raises.
    """
    if not is_router(await database.command("hello")):
        return []
    there = await database.list_collection_names()
    for name in _MADE_BY_WRITES:
        if name not in there:
            await database.create_collection(name)
    for name, key in SHARD_KEYS.items():
        if HASHED in key.values():  # the others begin an index that is there
            await database[name].create_index(list(key.items()))
        await database.client.admin.command("shardCollection", f"{database.name}.{name}", key=key)
    return list(SHARD_KEYS)
