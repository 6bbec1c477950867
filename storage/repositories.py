"""The repositories of one database, wired once."""

from collections.abc import Mapping, Sequence

from storage.audit import AuditLog
from storage.database import Database
from storage.dead_letters_replays import ReplayRepository
from storage.feedback import FeedbackRepository
from storage.feedback_reports import ReportRepository
from storage.feedback_votes import VoteRepository
from storage.images import ImageRepository
from storage.images_mark import ImageStoreMark
from storage.images_reviews import ReviewImageRepository
from storage.keys import ApiKeyRepository
from storage.moderation_rules import TextRepository
from storage.objects import ObjectRepository
from storage.orders import OrderRepository
from storage.outcomes import OutcomeRepository
from storage.parking import FEEDBACK, IMAGES, MODERATION, VERDICTS, ParkingRepository
from storage.planned_approvals import PlannedApprovalRepository
from storage.privacy_erasures import Erasures
from storage.purchases import PurchaseRepository
from storage.ratings import RatingRepository
from storage.ratings_objects import RatedObjectRepository
from storage.reminders import ReminderRepository
from storage.returns import ReturnRepository
from storage.returns_numbers import ReturnNumbers
from storage.returns_parking import ReturnParking
from storage.review_tokens import ReviewTokenRepository
from storage.reviews import ReviewRepository
from storage.reviews_edits import ReviewEditRepository
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
