"""Counts of decisions about reviews, for the policy page and the report for operators."""

from array import array
from collections.abc import Collection, MutableSequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from domain.policy import Decisions
from domain.ratings import stars
from domain.reviews import ReviewStatus
from domain.reviews_facts import ReasonCode
from storage.database import Database, Document
from storage.reviews import COLLECTION
from storage.reviews_search import SINCE_EVER
from storage.reviews_shape import REVIEW
from storage.shapes import filled

_DECIDED: Final = [int(ReviewStatus.APPROVED), int(ReviewStatus.REJECTED)]
_AT_ONCE: Final = 5_000
_RATED: Final[Document] = {"ratingHundredths": {"$gt": 0}}
"""The filter that leaves out reviews without a rating."""

_STARS: Final[Document] = {"$floor": {"$divide": [{"$add": ["$ratingHundredths", 50]}, 100]}}
"""The same as `domain.ratings.stars`."""


@dataclass(slots=True)
class DecisionReport:
    """Decisions about the reviews of a period, and the seconds that each one took."""

    decisions: Decisions = field(default_factory=Decisions)
    seconds: MutableSequence[float] = field(default_factory=lambda: array("d"))


class DecisionCounts:
    """Counts decisions by the current state of reviews. The cost grows with the number of reviews of a store."""

    def __init__(self, database: Database) -> None:
        self._reviews = database[COLLECTION]

    async def of_stores(self, store_ids: Collection[str]) -> dict[str, Decisions]:
        """The decisions about all reviews of each store."""
        group = {"store": "$storeId", "status": "$status", "stars": _STARS, "reason": "$reasonCode"}
        counted = await self._reviews.aggregate(
            [
                {"$match": {"storeId": {"$in": list(store_ids)}, "status": {"$in": _DECIDED}, **_RATED}},
                {"$group": {"_id": group, "count": {"$sum": 1}}},
            ]
        )
        decisions = {id: Decisions() for id in store_ids}
        async for document in counted:
            key = document["_id"]
            reason = ReasonCode(key["reason"]) if key.get("reason") else None
            decisions[key["store"]].add(ReviewStatus(key["status"]), int(key["stars"]), reason, document["count"])
        return decisions

    async def report(self, store_id: str | None, since: datetime | None, until: datetime | None) -> DecisionReport:
        """The decisions about the reviews submitted from `since` up to, but not including, `until`.

        A decision takes from the submission of a review to its last change, so that later changes count, too. For an
        import it starts at its arrival, or at its creation if the last change precedes the arrival. Uses eight bytes of
        memory per decision.
        """
        created: Document = {"$gte": since or SINCE_EVER} | ({"$lt": until} if until else {})
        match: Document = {"createdDate": created, **_RATED} | ({} if store_id is None else {"storeId": store_id})
        fields = dict.fromkeys(
            ("status", "ratingHundredths", "reasonCode", "createdDate", "submittedAt", "modifiedDate"), 1
        )
        report = DecisionReport()
        async for document in self._reviews.find(match, fields, batch_size=_AT_ONCE):
            whole = filled(REVIEW, document)
            status, reason = ReviewStatus(whole["status"]), document.get("reasonCode")
            report.decisions.add(status, stars(document["ratingHundredths"]), ReasonCode(reason) if reason else None)
            if status is not ReviewStatus.NEW:
                came, decided = document.get("submittedAt", document["createdDate"]), whole["modifiedDate"]
                began = came if came <= decided else document["createdDate"]
                report.seconds.append((decided - began).total_seconds())
        return report
