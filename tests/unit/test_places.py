"""Placement: the bucket of an object, and ids that contain it."""

from uuid import UUID, uuid4, uuid5

import pytest
from aiokafka.partitioner import murmur2 as murmur2_of_kafka
from hypothesis import given
from hypothesis import strategies as st

from domain.places import BUCKETS, bucket_in, bucket_of, contains_bucket, entity_key, murmur2, partition_at, placed
from domain.ratings import Entity
from messaging.kafka.packing import partition_of
from messaging.topics import Topic

CAMERA = Entity("Product", "camera")
SOME = UUID("6f1c4f4e-8a4e-4b1c-9d53-0c9d3a1f7be2")


@given(st.binary(max_size=100))
def test_hash_is_that_of_kafka_clients(content: bytes) -> None:
    assert murmur2(content) == murmur2_of_kafka(content) & 0x7FFFFFFF


def test_an_object_has_one_of_4096_buckets() -> None:
    buckets = {bucket_of(Entity("Product", f"p{n}")) for n in range(60_000)}
    assert buckets == set(range(BUCKETS))


@given(st.uuids(version=4), st.integers(0, BUCKETS - 1))
def test_placed_id_contains_its_bucket_and_keeps_the_rest(id: UUID, bucket: int) -> None:
    made = placed(id, bucket)
    assert bucket_in(made) == bucket
    assert contains_bucket(made.encode())
    assert UUID(made).int >> 76 & 0xF == 8
    assert UUID(made).int >> 80 == id.int >> 80
    assert UUID(made).int & (1 << 64) - 1 == id.int & (1 << 64) - 1


@pytest.mark.parametrize(
    "id",
    [
        "",
        "review-1",
        str(SOME),
        str(uuid5(SOME, "x")),
        placed(SOME, 7).upper(),
        placed(SOME, 7) + "0",
        placed(SOME, 7).replace("-", ""),
        pytest.param("\ud800" * 36, id="surrogates"),
    ],
)
def test_other_ids_contain_no_bucket(id: str) -> None:
    assert bucket_in(id) is None
    assert not contains_bucket(id.encode(errors="surrogatepass"))


@given(st.integers(0, BUCKETS - 1), st.integers(1, 500))
def test_partition_is_a_range_of_buckets(bucket: int, partitions: int) -> None:
    at = partition_at(placed(uuid4(), bucket).encode(), partitions)
    assert 0 <= at < partitions
    before = partition_at(placed(uuid4(), max(0, bucket - 1)).encode(), partitions)
    assert before in (at, at - 1)


@pytest.mark.parametrize(
    ("bucket", "partitions", "expected"),
    [(0, 3, 0), (1_365, 3, 0), (1_366, 3, 1), (4_095, 3, 2), (4_095, 4_096, 4_095), (2_048, 1, 0)],
)
def test_partitions_have_equal_shares_of_the_buckets(bucket: int, partitions: int, expected: int) -> None:
    assert partition_at(placed(SOME, bucket).encode(), partitions) == expected


def test_key_of_object_leads_to_its_bucket() -> None:
    assert entity_key(CAMERA) == "Product:camera"
    assert partition_at(entity_key(CAMERA).encode(), BUCKETS) == bucket_of(CAMERA)


def test_object_and_its_reviews_share_a_partition_only_of_changes() -> None:
    key, id = entity_key(CAMERA).encode(), placed(uuid4(), bucket_of(CAMERA)).encode()
    for count in (1, 3, 12, 96):
        name = f"shop.{Topic.REVIEW_CHANGES}"
        assert partition_of(name, key, count) == partition_of(name, id, count) < count
        assert partition_of("shop.events", key, count) == murmur2(key) % count
