"""The repositories of one database, wired once for every process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from storage.audit import AuditLog
from storage.database import Database
from storage.orders import OrderRepository
from storage.outcomes import OutcomeRepository
from storage.parking import ParkingRepository
from storage.purchases import PurchaseRepository
from storage.ratings import RatingRepository
from storage.returns import ReturnRepository
from storage.returns_numbers import ReturnNumbers
from storage.reviews import ReviewRepository
from storage.stores import StoreRepository
from storage.templates import TemplateRepository
from storage.traces import TraceRepository

_NO_ITEM_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Repositories:
    """One repository for each aggregate."""

    audit: AuditLog
    orders: OrderRepository
    outcomes: OutcomeRepository
    parking: ParkingRepository
    purchases: PurchaseRepository
    ratings: RatingRepository
    return_numbers: ReturnNumbers
    returns: ReturnRepository
    reviews: ReviewRepository
    stores: StoreRepository
    templates: TemplateRepository
    traces: TraceRepository

    @classmethod
    def on(cls, database: Database, purchase_item_fields: Mapping[str, str] = _NO_ITEM_FIELDS) -> Repositories:
        """The repositories on a database; `purchase_item_fields` as for PurchaseRepository."""
        return cls(
            audit=AuditLog(database),
            orders=OrderRepository(database),
            outcomes=OutcomeRepository(database),
            parking=ParkingRepository(database),
            purchases=PurchaseRepository(database, purchase_item_fields),
            ratings=RatingRepository(database),
            return_numbers=ReturnNumbers(database),
            returns=ReturnRepository(database),
            reviews=ReviewRepository(database),
            stores=StoreRepository(database),
            templates=TemplateRepository(database),
            traces=TraceRepository(database),
        )
