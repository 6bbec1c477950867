"""Shard keys: requirements of a sharded cluster for indexes and writes, and operations that go to every shard."""

from pkgutil import resolve_name
from typing import Any

import pytest

from storage.indexes import all_indexes
from storage.shards import SHARD_KEYS
from tests.support.scattering import SCATTERING
from tests.support.targeting import untargeted

TALLY = {"entityType": "Product", "entityId": "a", "storeId": None}


def test_unique_indexes_begin_with_the_shard_key() -> None:
    for collection, models in all_indexes(remember_days=1).items():
        unique = [model.document for model in models if model.document.get("unique")]
        key = list(SHARD_KEYS.get(collection, ()))
        assert [list(each["key"])[: len(key)] for each in unique] == [key] * len(unique)


@pytest.mark.parametrize("function", SCATTERING)
def test_listed_scattering_functions_exist(function: str) -> None:
    assert callable(resolve_name(f"storage.{function}"))


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("find", {"find": "reviews", "filter": {"_id": "a"}}),
        ("find", {"find": "reviews", "filter": {"$and": [{"status": 1}, {"_id": {"$in": ["a", "b"]}}]}}),
        ("find", {"find": "outcomes", "filter": {"_id": {"$gte": "a/", "$lt": "a0"}}}),
        ("find", {"find": "votes", "filter": {"_id": {"reviewId": "a", "userId": "b"}}}),
        (
            "find",
            {"find": "votes", "filter": {"$or": [{"_id": {"$gte": 1, "$lte": 2}}, {"_id": {"$gte": 4, "$lte": 5}}]}},
        ),
        ("count", {"count": "ratings", "query": {"entityType": "Product", "entityId": {"$in": ["a"]}}}),
        ("aggregate", {"aggregate": "ratings", "pipeline": [{"$match": TALLY}]}),
        ("update", {"update": "ratings", "updates": [{"q": TALLY, "u": {}, "upsert": True}]}),
        ("update", {"update": "orders", "updates": [{"q": {"_id": "a"}, "u": {}, "upsert": True}]}),
        ("update", {"update": "reviews", "updates": [{"q": {"_id": {"$in": ["a", "b"]}}, "u": {}, "multi": True}]}),
        ("delete", {"delete": "outbox", "deletes": [{"q": {"_id": 1}, "limit": 1}]}),
        ("insert", {"insert": "reviews", "documents": [{"_id": "a"}]}),
        ("find", {"find": "mails", "filter": {"dueAt": 1}}),  # this collection is not sharded
        ("getMore", {"getMore": 1, "collection": "reviews"}),
    ],
)
def test_targeted_operations(name: str, command: dict[str, Any]) -> None:
    assert not [*untargeted(name, command)]


@pytest.mark.parametrize(
    ("name", "command", "is_refused"),
    [
        ("find", {"find": "reviews", "filter": {"storeId": "a"}}, False),
        ("find", {"find": "reviews"}, False),
        ("find", {"find": "reviews", "filter": {"_id": {"$gt": "a", "$lt": "b"}}}, False),
        ("find", {"find": "reviews", "filter": {"$or": [{"_id": "a"}, {"status": 1}]}}, False),
        ("find", {"find": "votes", "filter": {"_id.userId": "b"}}, False),
        ("find", {"find": "outcomes", "filter": {"_id": {"$gt": "a"}}}, False),
        ("distinct", {"distinct": "ratings", "query": {"entityType": "Product"}}, False),
        ("aggregate", {"aggregate": "ratings", "pipeline": [{"$group": {"_id": 1}}]}, False),
        ("aggregate", {"aggregate": "ratings", "pipeline": []}, False),
        ("update", {"update": "ratings", "updates": [{"q": {"_id": 1}, "u": {}}]}, False),
        ("update", {"update": "ratings", "updates": [{"q": {"_id": 1}, "u": {}, "upsert": True}]}, True),
        ("update", {"update": "reviews", "updates": [{"q": {"status": 1}, "u": {}}]}, True),
        ("update", {"update": "reviews", "updates": [{"q": {"_id": {"$in": ["a", "b"]}}, "u": {}}]}, True),
        ("delete", {"delete": "orders", "deletes": [{"q": {"customerId": "a"}, "limit": 1}]}, True),
        ("delete", {"delete": "orders", "deletes": [{"q": {"customerId": "a"}, "limit": 0}]}, False),
        ("findAndModify", {"findAndModify": "orders", "query": {"storeId": "a"}}, True),
    ],
)
def test_operations_that_go_to_every_shard(name: str, command: dict[str, Any], *, is_refused: bool) -> None:
    assert [found.is_refused for found in untargeted(name, command)] == [is_refused]
