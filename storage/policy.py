"""Counts of decisions about reviews, for the policy page and the report for operators."""

from array import array
from collections.abc import MutableSequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from domain.policy import MOST_COUNTED, Decisions
from domain.ratings import HIGHEST_RATING, highest_with, lowest_with, stars
from domain.reviews import ReviewStatus
from domain.reviews_facts import ReasonCode
from storage.database import Database, Document
from storage.reviews.repository import COLLECTION
from storage.reviews.search import SINCE_EVER
from storage.reviews.shape import HAS_TEXT_ID, NEWEST

_DECIDED: Final = [int(ReviewStatus.APPROVED), int(ReviewStatus.REJECTED)]
_AT_ONCE: Final = 5_000
_COUNTED: Final[Document] = {
    "ratingHundredths": {"$gte": lowest_with(1), "$lte": highest_with(HIGHEST_RATING)},
    **HAS_TEXT_ID,
}
"""The filter that leaves out reviews without a possible rating, and those whose ids aren't texts."""

_STARS: Final[Document] = {"$floor": {"$divide": [{"$add": ["$ratingHundredths", 50]}, 100]}}
"""The stars of a review, as `domain.ratings.stars` rounds them."""
_KINDS: Final[Document] = {"status": "$status", "stars": _STARS, "reason": "$reasonCode"}


@dataclass(slots=True)
class DecisionReport:
    """Decisions about the reviews of a period, the seconds that each one took, and the number of damaged reviews, which
    are left out."""

    decisions: Decisions = field(default_factory=Decisions)
    seconds: MutableSequence[float] = field(default_factory=lambda: array("d"))
    damaged: int = 0


class _Decision(NamedTuple):
    """The status of a review, its stars, the reason of a rejection, and the seconds to a decision if there is one."""

    status: ReviewStatus
    stars: int
    reason: ReasonCode | None
    seconds: float | None


class DecisionCounts:
    """Counts decisions by the current state of reviews."""

    def __init__(self, database: Database) -> None:
        self._reviews = database[COLLECTION]

    async def newest(self, store_id: str) -> Decisions:
        """The decisions about the newest reviews of a store, at most MOST_COUNTED of them."""
        counted = await self._reviews.aggregate(
            [
                {"$match": {"storeId": store_id, "status": {"$in": _DECIDED}, **_COUNTED}},
                {"$sort": dict(NEWEST)},
                {"$limit": MOST_COUNTED},
                {"$group": {"_id": _KINDS, "count": {"$sum": 1}}},
            ]
        )
        decisions = Decisions()
        async for document in counted:
            kind = document["_id"]
            status, reason = ReviewStatus(kind["status"]), _reason(kind.get("reason"))
            decisions.add(status, int(kind["stars"]), reason, document["count"])
        return decisions

    async def report(self, store_id: str | None, since: datetime | None, until: datetime | None) -> DecisionReport:
        """The decisions about the reviews submitted from `since` up to, but not including, `until`.

        A decision takes from the submission of a review to its last change, so that later changes count, too. For an
        import it starts at its arrival, or at its creation if the last change precedes the arrival. Uses eight bytes of
        memory per decision, and the cost grows with the number of reviews.
        """
        created: Document = {"$gte": since or SINCE_EVER} | ({"$lt": until} if until else {})
        match: Document = {"createdDate": created, **_COUNTED} | ({} if store_id is None else {"storeId": store_id})
        fields = dict.fromkeys(
            ("status", "ratingHundredths", "reasonCode", "createdDate", "submittedAt", "modifiedDate"), 1
        )
        report = DecisionReport()
        async for document in self._reviews.find(match, fields, batch_size=_AT_ONCE):
            try:
                decision = _decision(document)
            except (KeyError, TypeError, ValueError):
                report.damaged += 1
                continue
            report.decisions.add(decision.status, decision.stars, decision.reason)
            if decision.seconds is not None:
                report.seconds.append(decision.seconds)
        return report


def _decision(document: Document) -> _Decision:
    status, seconds = ReviewStatus(document["status"]), None
    if status is not ReviewStatus.NEW:
        created, decided = document["createdDate"], document["modifiedDate"]
        came = document.get("submittedAt", created)
        seconds = (decided - (came if came <= decided else created)).total_seconds()
    return _Decision(status, stars(document["ratingHundredths"]), _reason(document.get("reasonCode")), seconds)


def _reason(code: object) -> ReasonCode | None:
    """The reason of a rejection; None if none was given, or one that this version doesn't know."""
    return next((each for each in ReasonCode if each == code), None) if code else None
