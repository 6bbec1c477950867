"""The feedback on reviews, for exports: every vote and report about a page of them, each in a fixed order."""

from collections.abc import AsyncIterator, Collection
from typing import Final, NamedTuple

from bson import MaxKey, MinKey
from pymongo import ASCENDING

from domain.feedback import Report
from storage.database import Database
from storage.feedback_reports import report_from

_VOTES: Final = "votes"
_REPORTS: Final = "reports"
_AT_ONCE: Final = 1_000
_ORDER_OF_REPORTS: Final = ("reviewId", "at", "reason", "explanation", "userId", "email", "name", "_id")
"""The sort of exported reports: by review, the oldest first."""


class ExportedVote(NamedTuple):
    """A vote on a review."""

    review_id: str
    user_id: str
    helpful: bool


class FeedbackExport:
    """Reads feedback by review. Memory holds one batch of a cursor."""

    def __init__(self, database: Database) -> None:
        self._votes = database[_VOTES]
        self._reports = database[_REPORTS]

    async def votes(self, review_ids: Collection[str]) -> AsyncIterator[ExportedVote]:
        """The votes on these reviews, by review and voter, without withdrawn ones."""
        if not review_ids:
            return
        wanted = set(review_ids)
        first, last = {"reviewId": min(wanted), "userId": MinKey()}, {"reviewId": max(wanted), "userId": MaxKey()}
        # A range of ids: MongoDB compares texts by their UTF-8 bytes, which is the order of their code points.
        found = self._votes.find({"_id": {"$gte": first, "$lte": last}}, batch_size=_AT_ONCE).sort("_id")
        async for document in found:
            id, helpful = document["_id"], document["helpful"]
            if id["reviewId"] in wanted and helpful is not None:
                yield ExportedVote(id["reviewId"], id["userId"], helpful)

    async def reports(self, review_ids: Collection[str]) -> AsyncIterator[Report]:
        """The reports about these reviews, by review, oldest first."""
        order = [(name, ASCENDING) for name in _ORDER_OF_REPORTS]
        found = self._reports.find({"reviewId": {"$in": list(review_ids)}}, allow_disk_use=True).sort(order)
        async for document in found:
            yield report_from(document)
