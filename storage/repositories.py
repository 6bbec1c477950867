"""The repositories of one database, wired once."""

from collections.abc import Mapping, Sequence

from storage.audit import AuditLog
from storage.database import Database
from storage.dead_letters_replays import ReplayRepository
from storage.feedback.reports import ReportRepository
from storage.feedback.repository import FeedbackRepository
from storage.feedback.votes import VoteRepository
from storage.images.mark import ImageStoreMark
from storage.images.repository import ImageRepository
from storage.images.reviews import ReviewImageRepository
from storage.keys import ApiKeyRepository
from storage.moderation_rules import TextRepository
from storage.objects import ObjectRepository
from storage.orders.repository import OrderRepository
from storage.outcomes import OutcomeRepository
from storage.parking import FEEDBACK, IMAGES, MODERATION, VERDICTS, ParkingRepository
from storage.planned_approvals import PlannedApprovalRepository
from storage.privacy.erasures import Erasures
from storage.purchases import PurchaseRepository
from storage.ratings.objects import RatedObjectRepository
from storage.ratings.repository import RatingRepository
from storage.reminders.repository import ReminderRepository
from storage.returns.numbers import ReturnNumbers
from storage.returns.parking import ReturnParking
from storage.returns.repository import ReturnRepository
from storage.review_tokens import ReviewTokenRepository
from storage.reviews.edits import ReviewEditRepository
from storage.reviews.repository import ReviewRepository
from storage.sessions import SessionRepository
from storage.stores import StoreRepository
from storage.templates import TemplateRepository
from storage.unique_keys import UniqueKeyRepository


class Repositories:
    """One repository for each aggregate. `purchase_item_fields` is for PurchaseRepository, `token_keys` for
    ReviewTokenRepository, `erasure_keys` for Erasures."""

    def __init__(
        self,
        database: Database,
        purchase_item_fields: Mapping[str, str] | None = None,
        token_keys: Sequence[bytes] = (),
        erasure_keys: Sequence[bytes] = (),
    ) -> None:
        self.audit = AuditLog(database)
        self.unique_keys = UniqueKeyRepository(database)
        self.images = ImageRepository(database)
        self.keys = ApiKeyRepository(database)
        self.objects = ObjectRepository(database)
        self.orders = OrderRepository(database)
        self.outcomes = OutcomeRepository(database)
        self.parked_feedback = ParkingRepository(database, FEEDBACK)
        self.parked_image_commands = ParkingRepository(database, IMAGES)
        self.parked_returns = ReturnParking(database)
        self.parked_verdicts = ParkingRepository(database, VERDICTS)
        self.parked_moderation = ParkingRepository(database, MODERATION)
        self.planned_approvals = PlannedApprovalRepository(database)
        self.purchases = PurchaseRepository(database, purchase_item_fields or {})
        self.erasures = Erasures(database, erasure_keys)
        self.feedback = FeedbackRepository(database)
        self.reports = ReportRepository(database)
        self.votes = VoteRepository(database)
        self.rated_objects = RatedObjectRepository(database)
        self.ratings = RatingRepository(database)
        self.reminders = ReminderRepository(database)
        self.replays = ReplayRepository(database)
        self.return_numbers = ReturnNumbers(database)
        self.returns = ReturnRepository(database)
        self.review_edits = ReviewEditRepository(database)
        self.review_images = ReviewImageRepository(database)
        self.review_tokens = ReviewTokenRepository(database, token_keys)
        self.reviews = ReviewRepository(database)
        self.sessions = SessionRepository(database)
        self.image_store_mark = ImageStoreMark(database)
        self.stores = StoreRepository(database)
        self.templates = TemplateRepository(database)
        self.texts = TextRepository(database)
