"""Reviews for exports, and the feedback on a page of them: every vote and report, each in a fixed order."""

from collections.abc import AsyncIterator, Collection
from typing import Final, NamedTuple

from pymongo import ASCENDING

from domain.feedback_reports import Report
from domain.reviews import Review
from storage.database import Database, Document
from storage.feedback.reports import REPORT, report_from
from storage.feedback.votes import VOTE, on_reviews, vote_from
from storage.id_ranges import TEXTS, found_in_ranges
from storage.reviews.documents import whole_review_from
from storage.reviews.repository import COLLECTION
from storage.reviews.search import ReviewSearch, criteria
from storage.reviews.shape import REVIEW
from storage.shapes import damaged, is_field_damaged

MOST_NAMED: Final = 20
"""Maximum number of damaged reviews whose ids are kept."""

_AT_ONCE: Final = 1_000
_ORDER_OF_REPORTS: Final = ("reviewId", "at", "reason", "explanation", "userId", "email", "name", "_id")
"""The sort of exported reports: by review, the oldest first."""


class ReviewExport:
    """Reads the reviews of a search that are whole; `damaged` is the number of the others, `named` their first ids."""

    def __init__(self, database: Database, search: ReviewSearch) -> None:
        self._reviews = database[COLLECTION]
        self._search = search
        self.damaged = 0
        self.named: list[str] = []

    async def whole(self) -> AsyncIterator[Review]:
        """All matching reviews that are whole, by id; `sort`, `skip` and `take` are ignored. Memory holds one batch."""
        wanted = {"$or": [criteria(self._search), damaged(REVIEW)]}
        async for document in found_in_ranges(self._reviews, TEXTS, wanted):
            if (review := whole_review_from(document)) is not None:
                yield review
            elif self._may_match(document):
                self.damaged += 1
                if self.damaged <= MOST_NAMED:
                    self.named.append(document["_id"])

    def _may_match(self, document: Document) -> bool:
        """True unless the store, type or status of a damaged review is sound and isn't asked for."""
        stores = None if self._search.store_id is None else [self._search.store_id]
        asked = {"storeId": stores, "entityType": self._search.entity_types, "status": self._search.statuses}
        return all(
            values is None or is_field_damaged(REVIEW, document, name) or document[name] in values
            for name, values in asked.items()
        )


class ExportedVote(NamedTuple):
    """A vote on a review."""

    review_id: str
    user_id: str
    helpful: bool


class FeedbackExport:
    """Reads feedback on the reviews of a search. Memory holds one batch of a cursor."""

    def __init__(self, database: Database, search: ReviewSearch) -> None:
        self._votes = database[VOTE.collection]
        self._reports = database[REPORT.collection]
        self._is_filtered = search != ReviewSearch()

    async def votes(self, review_ids: Collection[str]) -> AsyncIterator[ExportedVote]:
        """The votes on these reviews, consecutive ones of the search, by review and voter, without withdrawn ones."""
        if not review_ids:
            return
        wanted = set(review_ids)
        # One range is found faster than hundreds, but it has all the votes on other reviews that a filter leaves out.
        ids = [(id, id) for id in sorted(wanted)] if self._is_filtered else [(min(wanted), max(wanted))]
        ranges = [on_reviews(first, last) for first, last in ids]
        found = self._votes.find({"$or": ranges}, batch_size=_AT_ONCE).sort("_id")
        async for document in found:
            id, helpful = document["_id"], vote_from(document).helpful
            if id["reviewId"] in wanted and helpful is not None:
                yield ExportedVote(id["reviewId"], id["userId"], helpful)

    async def reports(self, review_ids: Collection[str]) -> AsyncIterator[Report]:
        """The reports about these reviews, by review, oldest first."""
        order = [(name, ASCENDING) for name in _ORDER_OF_REPORTS]
        found = self._reports.find({"reviewId": {"$in": list(review_ids)}}, allow_disk_use=True).sort(order)
        async for document in found:
            yield report_from(document)
