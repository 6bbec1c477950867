"""The partitions that topics have as they grow, and the ways to the service that clients may take meanwhile."""

import random
from dataclasses import dataclass
from enum import StrEnum

from tests.support.service import PARTITIONS


class Way(StrEnum):
    """One of the two ways to the service."""

    HTTP = "http"
    KAFKA = "kafka"


@dataclass
class Partitions:
    """The partitions of the topics that Plaudit reads, as the suite has them grow."""

    count: int = PARTITIONS
    is_growing: bool = False

    def way(self, name: str) -> Way | None:
        """The only way that a client may take now, None for any. While topics grow, two who publish can know of
        different partitions: order is promised for what takes one way."""
        return random.Random(name).choice(list(Way)) if self.is_growing else None
