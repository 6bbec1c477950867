"""The partition count of growing topics, and the ways that clients may take meanwhile."""

import random
from dataclasses import dataclass
from enum import StrEnum

from tests.support.service import PARTITIONS


class Way(StrEnum):
    """A way for commands into the service."""

    HTTP = "http"
    KAFKA = "kafka"


@dataclass
class Partitions:
    """The partition count of the consumed topics."""

    count: int = PARTITIONS
    is_growing: bool = False

    def way(self, name: str) -> Way | None:
        """The only way that a client may take; None: both.

        While topics grow, two producers may see different partition counts: order is only promised within one way.
        """
        return random.Random(name).choice(list(Way)) if self.is_growing else None
