"""The repositories of one database, wired once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from storage.audit import AuditLog
from storage.claims import ClaimRepository
from storage.database import Database
from storage.moderation_rules import PublicationRepository, TextRepository
from storage.objects import ObjectRepository
from storage.orders import OrderRepository
from storage.outcomes import OutcomeRepository
from storage.parking import ParkingRepository
from storage.purchases import PurchaseRepository
from storage.ratings import RatingRepository
from storage.reminders import ReminderRepository
from storage.returns import ReturnRepository
from storage.returns_numbers import ReturnNumbers
from storage.review_tokens import ReviewTokenRepository
from storage.reviews import ReviewRepository
from storage.reviews_edits import ReviewEditRepository
from storage.stores import StoreRepository
from storage.templates import TemplateRepository
from storage.verdicts import VerdictRepository


class Repositories:
    """One repository for each aggregate; `purchase_item_fields` as for PurchaseRepository, `token_keys` those of review
    tokens as for ReviewTokenRepository."""

    def __init__(
        self,
        database: Database,
        purchase_item_fields: Mapping[str, str] | None = None,
        token_keys: Sequence[bytes] = (),
    ) -> None:
        self.audit = AuditLog(database)
        self.claims = ClaimRepository(database)
        self.objects = ObjectRepository(database)
        self.orders = OrderRepository(database)
        self.outcomes = OutcomeRepository(database)
        self.parking = ParkingRepository(database)
        self.publications = PublicationRepository(database)
        self.purchases = PurchaseRepository(database, purchase_item_fields or {})
        self.ratings = RatingRepository(database)
        self.reminders = ReminderRepository(database)
        self.return_numbers = ReturnNumbers(database)
        self.returns = ReturnRepository(database)
        self.review_edits = ReviewEditRepository(database)
        self.review_tokens = ReviewTokenRepository(database, token_keys)
        self.reviews = ReviewRepository(database)
        self.stores = StoreRepository(database)
        self.templates = TemplateRepository(database)
        self.texts = TextRepository(database)
        self.verdicts = VerdictRepository(database)
