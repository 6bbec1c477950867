"""An export of few reviews among many queries MongoDB in ranges of some thousands, and reads no other votes."""

from datetime import UTC, datetime

import pytest

from domain.reviews import ReviewStatus
from storage.id_ranges import SIZE
from storage.indexes import ensure_indexes
from storage.reviews.exports import FeedbackExport, ReviewExport
from storage.reviews.search import ReviewSearch
from tests.support.ranges import FilterRecorder, recorded_database
from tests.support.service import Json, Servers

CREATED = datetime(2026, 1, 1, tzinfo=UTC)


def review(number: int, *, is_new: bool) -> Json:
    """Return a stored review: New in a store, or approved without one."""
    entity = {"entityType": "Product", "entityId": "p", "entityName": None}
    author = {"userId": None, "userName": "Ann", "title": "", "review": "Sharp", "ratingHundredths": 400}
    dates = {"createdDate": CREATED, "modifiedDate": CREATED, "messages": [], "seen": {}}
    status = ReviewStatus.NEW if is_new else ReviewStatus.APPROVED
    store = {"storeId": "own" if is_new else None, "status": int(status)}
    return {"_id": f"{number:05}", **entity, **author, **dates, **store}


@pytest.mark.long
async def test_sparse_reviews_are_found_in_ranges(servers: Servers) -> None:
    recorder = FilterRecorder(["reviews"])
    expected = {0, SIZE - 1, SIZE, 2 * SIZE, 3 * SIZE - 1}
    async with recorded_database(servers, recorder) as database:
        await ensure_indexes(database, remember_days=21)
        await database["reviews"].insert_many([review(n, is_new=n in expected) for n in range(3 * SIZE)])
        recorder.filters.clear()
        for search in (ReviewSearch(statuses=[ReviewStatus.NEW]), ReviewSearch(store_id="own")):
            assert [int(each.id) async for each in ReviewExport(database, search).whole()] == sorted(expected)
        assert len([each async for each in ReviewExport(database, ReviewSearch()).whole()]) == 3 * SIZE
        assert recorder.unbounded() == []


@pytest.mark.parametrize("search", [ReviewSearch(), ReviewSearch(store_id="own")], ids=["all", "filtered"])
async def test_votes_on_other_reviews_are_not_read(servers: Servers, search: ReviewSearch) -> None:
    recorder = FilterRecorder(["votes"])
    ids = [f"{n:03}" for n in range(300)]
    wanted = ids[::100] if search.store_id else ids
    async with recorded_database(servers, recorder) as database:
        await ensure_indexes(database, remember_days=21)
        keys = [(id, voter) for id in ids for voter in ("a", "b", "c")]
        votes = [{"_id": {"reviewId": id, "userId": voter}, "helpful": True, "at": [0, 0, 0]} for id, voter in keys]
        await database["votes"].insert_many(votes)
        recorder.filters.clear()
        found = [(each.review_id, each.user_id) async for each in FeedbackExport(database, search).votes(wanted)]
        assert found == [key for key in keys if key[0] in wanted]
        ((_, filter),) = recorder.filters
        query = {"find": "votes", "filter": filter, "sort": {"_id": 1}}
        explained = await database.command("explain", query, verbosity="executionStats")
        assert explained["executionStats"]["totalDocsExamined"] == len(found)
