"""Reports about reviews."""

from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID, uuid5

from domain.reviews import ModerationAction

_REPORTS: Final = UUID("8c0a4f52-1d7b-5e36-b0f4-2a9d6e71c503")


class ReportReason(StrEnum):
    """The reason for a report."""

    SPAM = "spam"
    OFFENSIVE = "offensive"
    PERSONAL_DATA = "personal-data"
    OFF_TOPIC = "off-topic"
    ILLEGAL = "illegal"
    OTHER = "other"


class Settlement(NamedTuple):
    """The decision that settled a report."""

    action: ModerationAction
    moderator: str | None
    at: datetime


class Report(NamedTuple):
    """An objection to a review, open until a decision about the review settles it. Times are aware, in UTC."""

    id: str
    review_id: str
    reason: ReportReason
    explanation: str
    at: datetime
    name: str | None = None
    email: str | None = None
    user_id: str | None = None
    settled: Settlement | None = None

    @property
    def other_id(self) -> str:
        """The id of this report if one about another review has its id: systems may count the reports of each shop."""
        return str(uuid5(_REPORTS, f"{self.review_id}\n{self.id}"))
