"""Compares ratings with reviews during the load: the two never disagree, not even between two commands."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from pymongo.errors import PyMongoError

from storage.database import connect
from storage.ratings.repository import RatingRepository
from tests.support.service import Service

INTERVAL_S: Final = 20.0
"""Seconds between two looks."""
LOOK_S: Final = 60.0
"""Maximum seconds of a look: a server that a fault holds may never respond."""
MAX_DIFFERENCES: Final = 100
"""Maximum number of differences kept."""


@dataclass
class RatingsWatch:
    """What looks at the ratings under load have found."""

    looks: int = 0
    """Number of looks at all ratings."""
    missed: int = 0
    """Number of looks that a fault of the database ended."""
    differences: list[tuple[str, str]] = field(default_factory=list)
    """Id of the object of each rating that differed, with a description."""

    async def run(self, service: Service) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            try:
                async with asyncio.timeout(LOOK_S):
                    found = await differing_ratings(service)
            except (PyMongoError, TimeoutError):
                self.missed += 1
                continue
            self.looks += 1
            self.differences = [*self.differences, *found][:MAX_DIFFERENCES]


async def differing_ratings(service: Service) -> list[tuple[str, str]]:
    """The ratings that differ from a count of the reviews in the same snapshot."""
    client, database = connect(service.servers.mongo, service.database)
    async with client:
        return [
            (key.entity.id, f"rating of {key} under load: {stored}, counted {counted}")
            async for key, stored, counted in RatingRepository(database).differences()
        ]
