"""Places of objects: buckets that distribute reviews, ratings and their commands, and ids that contain a bucket.

An object's bucket is a number from 0 to 4095: murmur2, as computed by Kafka's clients, of `EntityType:EntityId`, modulo
4096. The ids that Plaudit assigns are UUIDs of version 8 (RFC 9562, 5.8) with the bucket in the 12 bits after the
version, so that a command finds the owner of its review without a lookup. Any other id is valid, too, but looked up.
"""

import re
from functools import lru_cache
from struct import iter_unpack
from typing import Final
from uuid import UUID

from domain.ratings import Entity

BUCKETS: Final = 4096

_ASSIGNED_ID: Final = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-8([0-9a-f]{3})-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_VERSION_AND_BUCKET: Final = 0xFFFF << 64
_VERSION: Final = 8 << 76

_WORD: Final = 0xFFFFFFFF
_MULTIPLIER: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C


def entity_key(entity: Entity) -> str:
    """The key of messages about an object, which determines its bucket."""
    return f"{entity.type}:{entity.id}"


def bucket_of(entity: Entity) -> int:
    """The bucket of an object."""
    return _bucket(entity_key(entity).encode())


def placed(id: UUID, bucket: int) -> str:
    """The id, random or derived, with a bucket embedded: 110 of its bits stay."""
    return str(UUID(int=id.int & ~_VERSION_AND_BUCKET | _VERSION | bucket << 64))


def bucket_in(id: str) -> int | None:
    """The bucket in an id; None for an id that Plaudit didn't assign. A forged id may contain any bucket."""
    return _embedded_bucket(id.encode(errors="surrogatepass"))


def contains_bucket(key: bytes) -> bool:
    """True for a key that is an id with a bucket."""
    return _embedded_bucket(key) is not None


def partition_at(key: bytes, partitions: int) -> int:
    """The partition for a key, which is an id with a bucket or the key of an object: each of the `partitions` has a
    range of buckets."""
    bucket = _embedded_bucket(key)
    return (_bucket(key) if bucket is None else bucket) * partitions // BUCKETS


def _embedded_bucket(id: bytes) -> int | None:
    found = _ASSIGNED_ID.fullmatch(id)
    return int(found[1], 16) if found else None


@lru_cache(maxsize=16_384)
def _bucket(key: bytes) -> int:
    return murmur2(key) % BUCKETS


def murmur2(content: bytes) -> int:
    """The hash by which Kafka's clients choose a partition: positive, 31 bits.

    https://github.com/apache/kafka/blob/trunk/clients/src/main/java/org/apache/kafka/common/utils/Utils.java
    """
    length = len(content)
    state = _SEED ^ length
    whole = length & ~3
    for (read,) in iter_unpack("<I", content[:whole]):
        word = read * _MULTIPLIER & _WORD
        state = state * _MULTIPLIER & _WORD ^ (word ^ word >> 24) * _MULTIPLIER & _WORD
    if whole < length:
        state = (state ^ int.from_bytes(content[whole:], "little")) * _MULTIPLIER & _WORD
    state = (state ^ state >> 13) * _MULTIPLIER & _WORD
    return (state ^ state >> 15) & 0x7FFFFFFF
