"""The dependencies of the facade, built and closed by the composition root."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final

from fastapi import Depends, Request

from api.auth.authentication import Authenticator, Nobody
from api.counts import LargeCounts
from api.lookups import Lookups
from api.waits import Waits
from api.web.budgets import Budget
from domain.entity_types import SAMPLE, EntityTypes
from messaging.envelope import Envelope
from messaging.kafka.lag import ConsumerLag
from messaging.kafka.publisher import Publisher
from messaging.topics import TopicNames
from storage.audit import AuditLog
from storage.database import Database
from storage.orders import OrderRepository
from storage.outcomes import OutcomeRepository
from storage.parking import ParkingRepository
from storage.purchases import PurchaseRepository
from storage.ratings import RatingRepository
from storage.returns import ReturnRepository
from storage.reviews import ReviewRepository
from storage.stores import StoreRepository
from storage.templates import TemplateRepository

_OPEN: Final = Nobody()
DEFAULT_MAX_BODY_BYTES: Final = 1024 * 1024
DEFAULT_MAX_PAGES_BYTES: Final = 32 * 1024 * 1024
DEFAULT_MAX_WAITS: Final = 1_000
DEFAULT_MAX_WAITS_PER_CLIENT: Final = 100
SOURCE: Final = "/plaudit/api"


@dataclass(frozen=True, slots=True)
class Services:
    """The repositories, the way out to Kafka, and the limits of one facade. `pages` is for what MongoDB returns."""

    database: Database
    lookups: Lookups
    reviews: ReviewRepository
    ratings: RatingRepository
    stores: StoreRepository
    templates: TemplateRepository
    orders: OrderRepository
    purchases: PurchaseRepository
    returns: ReturnRepository
    parking: ParkingRepository
    outcomes: OutcomeRepository
    waits: Waits
    pages: Budget
    audit: AuditLog
    publisher: Publisher
    envelope: Envelope
    topics: TopicNames
    version: str
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    entity_types: EntityTypes = SAMPLE
    lag: ConsumerLag | None = None
    authenticator: Authenticator = _OPEN
    review_counts: LargeCounts = field(default_factory=LargeCounts)

    @classmethod
    def on(
        cls,
        database: Database,
        publisher: Publisher,
        topics: TopicNames,
        *,
        version: str,
        max_body_bytes: int = DEFAULT_MAX_BODY_BYTES,
        entity_types: EntityTypes = SAMPLE,
        lag: ConsumerLag | None = None,
        authenticator: Authenticator = _OPEN,
        max_pages_bytes: int = DEFAULT_MAX_PAGES_BYTES,
        max_waits: int = DEFAULT_MAX_WAITS,
        max_waits_per_client: int = DEFAULT_MAX_WAITS_PER_CLIENT,
    ) -> Services:
        """The services on one database and one publisher."""
        ratings, stores, outcomes = RatingRepository(database), StoreRepository(database), OutcomeRepository(database)
        return cls(
            database=database,
            lookups=Lookups(ratings, stores),
            reviews=ReviewRepository(database),
            ratings=ratings,
            stores=stores,
            templates=TemplateRepository(database),
            orders=OrderRepository(database),
            purchases=PurchaseRepository(database, entity_types.purchase_item_fields),
            returns=ReturnRepository(database),
            parking=ParkingRepository(database),
            outcomes=outcomes,
            waits=Waits(outcomes.answers, most=max_waits, most_per_client=max_waits_per_client),
            pages=Budget(max_pages_bytes),
            audit=AuditLog(database),
            publisher=publisher,
            envelope=Envelope(SOURCE),
            topics=topics,
            version=version,
            max_body_bytes=max_body_bytes,
            entity_types=entity_types,
            lag=lag,
            authenticator=authenticator,
        )


async def services_of(request: Request) -> Services:
    """The services of the application that serves the request."""
    services: Services = request.app.state.services
    return services


Injected = Annotated[Services, Depends(services_of)]
"""Services as a parameter of an endpoint."""
