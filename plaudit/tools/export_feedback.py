"""Lines of an export with votes and reports, which `plaudit import` reads."""

from collections.abc import AsyncIterator, Callable, Collection
from typing import Any, Final, TypeVar

from api.feedback import ReportRow
from domain.feedback_reports import Report
from storage.database import Database
from storage.reviews.exports import ExportedVote, FeedbackExport
from storage.reviews.search import ReviewSearch

VOTES_IN_LINE: Final = 500
REPORTS_IN_LINE: Final = 10
"""Maximum votes or reports in a line, so that it stays below `MAX_LINE_BYTES` of an import: a review can have any
number of votes, and each character of a report can take twelve bytes."""

Told = TypeVar("Told", ExportedVote, Report)
Shown = TypeVar("Shown")


async def feedback_lines(
    database: Database, search: ReviewSearch, review_ids: Collection[str]
) -> AsyncIterator[dict[str, Any]]:
    """All votes on and reports about these reviews, which are consecutive ones of the search, grouped by review:
    lines with `reviewId`, and either `votes` or `reported`."""
    feedback = FeedbackExport(database, search)
    async for review_id, votes in _grouped(feedback.votes(review_ids), VOTES_IN_LINE, _vote):
        yield {"reviewId": review_id, "votes": votes}
    async for review_id, reported in _grouped(feedback.reports(review_ids), REPORTS_IN_LINE, ReportRow.of):
        yield {"reviewId": review_id, "reported": reported}


async def _grouped(
    found: AsyncIterator[Told], size: int, show: Callable[[Told], Shown]
) -> AsyncIterator[tuple[str, list[Shown]]]:
    """Consecutive items about one review, in groups of at most `size`."""
    review_id, group = "", list[Shown]()
    async for each in found:
        if group and (each.review_id != review_id or len(group) == size):
            yield review_id, group
            group = []
        review_id = each.review_id
        group.append(show(each))
    if group:
        yield review_id, group


def _vote(vote: ExportedVote) -> dict[str, Any]:
    return {"userId": vote.user_id, "helpful": vote.helpful}
