"""What the facade works with, built and closed by the composition root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Request

from messaging.envelope import Envelope
from messaging.publisher import Publisher
from messaging.topics import TopicNames
from storage.database import Database
from storage.outcomes import OutcomeRepository
from storage.parking import ParkingRepository
from storage.ratings import RatingRepository
from storage.reviews import ReviewRepository
from storage.stores import StoreRepository

DEFAULT_MAX_BODY_BYTES: Final = 1024 * 1024
SOURCE: Final = "/plaudit/api"


@dataclass(frozen=True, slots=True)
class Services:
    """The repositories, the way out to Kafka, and the limits of one facade."""

    database: Database
    reviews: ReviewRepository
    ratings: RatingRepository
    stores: StoreRepository
    parking: ParkingRepository
    outcomes: OutcomeRepository
    publisher: Publisher
    envelope: Envelope
    topics: TopicNames
    version: str
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES

    @classmethod
    def on(
        cls,
        database: Database,
        publisher: Publisher,
        topics: TopicNames,
        *,
        version: str,
        max_body_bytes: int = DEFAULT_MAX_BODY_BYTES,
    ) -> Services:
        """The services on one database and one publisher."""
        return cls(
            database=database,
            reviews=ReviewRepository(database),
            ratings=RatingRepository(database),
            stores=StoreRepository(database),
            parking=ParkingRepository(database),
            outcomes=OutcomeRepository(database),
            publisher=publisher,
            envelope=Envelope(SOURCE),
            topics=topics,
            version=version,
            max_body_bytes=max_body_bytes,
        )


async def services_of(request: Request) -> Services:
    """The services of the application that serves the request."""
    services: Services = request.app.state.services
    return services


Injected = Annotated[Services, Depends(services_of)]
"""Services as a parameter of an endpoint."""
