"""Places of objects: buckets by which reviews, ratings and their commands are spread, and ids that tell them.

An object's bucket is a number from 0 to 4095: murmur2, as Kafka's clients compute it, of `EntityType:EntityId`. The ids
that we give are UUIDs of version 8 (RFC 9562, 5.8) with the bucket in the 12 bits behind the version, so that a command
finds the owner of its review without a look-up. Any other id is as good, and has to be looked up.
"""

import re
from functools import lru_cache
from struct import iter_unpack
from typing import Final
from uuid import UUID

from domain.ratings import Entity

BUCKETS: Final = 4096

_OURS: Final = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-8([0-9a-f]{3})-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_VERSION_AND_BUCKET: Final = 0xFFFF << 64
_VERSION: Final = 8 << 76

_WORD: Final = 0xFFFFFFFF
_MULTIPLIER: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C


def entity_key(entity: Entity) -> str:
    """The key of messages about an object: its bucket follows from it."""
    return f"{entity.type}:{entity.id}"


def bucket_of(entity: Entity) -> int:
    """The bucket of an object."""
    return _bucket(entity_key(entity).encode())


def placed(id: UUID, bucket: int) -> str:
    """This id, which is random or follows from something, with a bucket in it: 110 of its bits stay."""
    return str(UUID(int=id.int & ~_VERSION_AND_BUCKET | _VERSION | bucket << 64))


def bucket_in(id: str) -> int | None:
    """The bucket that an id tells; None for one that we didn't give. A forged one may tell any."""
    return _told(id.encode(errors="surrogatepass"))


def tells_place(key: bytes) -> bool:
    """True for an id with a bucket."""
    return _told(key) is not None


def partition_at(key: bytes, partitions: int) -> int:
    """The partition of the place that a key tells, an id with a bucket or that of an object: each of so many has a
    range of buckets."""
    bucket = _told(key)
    return (_bucket(key) if bucket is None else bucket) * partitions // BUCKETS


def _told(id: bytes) -> int | None:
    found = _OURS.fullmatch(id)
    return int(found[1], 16) if found else None


@lru_cache(maxsize=16_384)
def _bucket(key: bytes) -> int:
    return murmur2(key) % BUCKETS


def murmur2(content: bytes) -> int:
    """The positive hash by which Kafka's clients choose a partition, 31 bits.

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
