"""Lists of reviews page by page, by `after`, and counts by status."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from api.counts import LargeCounts
from api.reviews.counts import count_reviews
from domain.reviews import ReviewStatus
from domain.sorting import Direction
from storage.database import Database
from storage.indexes import ensure_indexes
from storage.ratings.repository import RatingRepository
from storage.reviews.queue import queue_fields
from storage.reviews.repository import ReviewRepository
from storage.reviews.search import ReviewSearch, ReviewSortField
from storage.schema import SchemaMarks
from tests.support.facade import Facade, body_of, new_id, submission
from tests.support.service import Json

REVIEWS = "/api/customerReviews"


async def pages_of(facade: Facade, **search: Any) -> list[Json]:
    """Return every page of a list, following `next`."""
    pages = [await facade.page(**search)]
    while "next" in pages[-1]:
        pages.append(await facade.page(**search, after=pages[-1]["next"]))
    return pages


def ids_of(pages: list[Json]) -> list[str]:
    return [row["id"] for page in pages for row in page["results"]]


async def some_reviews(facade: Facade) -> tuple[str, list[str]]:
    """Create an object with 11 reviews in several states, with ties and empty fields; returns its id, and theirs."""
    entity, store = new_id(), await facade.open_store()
    reviews = [
        submission(
            entity,
            1 + index % 3,
            title=[None, "", "A", "b"][index % 4],
            userName=[None, "Ann"][index % 2],
            EntityName=[None, "Camera"][index // 6],
            storeId=[None, store][index % 2],
        )
        for index in range(11)
    ]
    ids = await facade.submit(*reviews)
    await facade.moderate("approve", *ids[:5])
    await facade.moderate("reject", *ids[3:4])
    return entity, ids


@pytest.fixture(scope="module")
async def reviewed(facade: Facade) -> tuple[str, list[str]]:
    return await some_reviews(facade)


SORTS = [
    *("", *ReviewSortField, *(f"{field}:desc" for field in ReviewSortField)),
    *("title-descending;rating", "storeName:Descending;rating:desc;id", "reviewStatus;userName:desc;title"),
]


@pytest.mark.long
@pytest.mark.parametrize("sort", SORTS)
async def test_pages_add_up_to_the_list(facade: Facade, reviewed: tuple[str, list[str]], sort: str) -> None:
    entity, ids = reviewed
    whole = await facade.listed(entityIds=[entity], sort=sort, take=1_000)
    assert sorted(whole) == sorted(ids)
    pages = await pages_of(facade, entityIds=[entity], sort=sort, take=3, withTotal=False)
    assert ids_of(pages) == whole
    assert [(list(page), len(page["results"])) for page in pages] == [
        *[(["next", "results"], 3)] * 3,
        (["results"], 2),
    ]


@pytest.mark.parametrize(("take", "sizes"), [(11, [11]), (12, [11]), (10, [10, 1]), (1_000, [11])])
async def test_last_page_has_no_next(
    facade: Facade, reviewed: tuple[str, list[str]], take: int, sizes: list[int]
) -> None:
    pages = await pages_of(facade, entityIds=[reviewed[0]], take=take)
    assert [len(page["results"]) for page in pages] == sizes
    assert {page["totalCount"] for page in pages} == {11}


@pytest.mark.long
async def test_pages_and_counts_by_every_filter(facade: Facade, reviewed: tuple[str, list[str]]) -> None:
    entity, ids = reviewed
    for status in ([0], 0, "new", ["NEW"]):
        found = ids_of(await pages_of(facade, entityIds=[entity], reviewStatus=status, take=2))
        assert sorted(found) == sorted(ids[5:])
    found = ids_of(await pages_of(facade, entityIds=[entity], reviewStatus=[1, "Rejected"], keyword="ann", take=1))
    assert sorted(found) == sorted(ids[1:5:2])
    assert await facade.listed(objectIds=[ids[3], ids[1], "x"], sort="id") == sorted([ids[1], ids[3]])
    assert await facade.listed(ids=ids[:2], reviewStatus=[2]) == []
    assert await facade.page(entityIds=[entity], take=0) == {"totalCount": 11, "results": []}
    assert await facade.page(entityIds=[entity], take=0, withTotal=False) == {"results": []}


async def test_pages_while_others_write(facade: Facade) -> None:
    entity = new_id()
    ids = await facade.submit(*(submission(entity) for _ in range(6)))
    search = {"entityIds": [entity], "sort": "createdDate", "take": 2}
    first = await facade.page(**search)
    seen = ids_of([first])
    left = [id for id in ids if id not in seen]
    await facade.command("DELETE", REVIEWS, {"ids": [seen[0], seen[1], left[0]]})
    new = await facade.submit(submission(entity))
    second = await facade.page(**search, after=first["next"])
    third = await facade.page(**search, after=second["next"])
    assert sorted(ids_of([second, third])) == sorted([*left[1:], *new])
    assert "next" not in third


async def test_long_texts_and_their_next_page(facade: Facade) -> None:
    entity = new_id()
    ids = await facade.submit(*(submission(entity, review="é" * 20_000) for _ in range(21)))
    pages = await pages_of(facade, entityIds=[entity], take=20)
    assert sorted(ids_of(pages)) == sorted(ids)
    assert [list(page) for page in pages] == [["totalCount", "next", "results"], ["totalCount", "results"]]
    assert {len(row["review"]) for page in pages for row in page["results"]} == {20_000}


async def test_whole_reviews(facade: Facade, http: httpx.AsyncClient) -> None:
    entity, store = new_id(), await facade.open_store()
    id, other = await facade.submit(*(submission(entity, storeId=store, userId=user) for user in ("u-1", None)))
    await facade.command("POST", f"{REVIEWS}/reject?reason=Spam", [id])
    search = {"entityIds": [entity], "sort": "reviewStatus:desc"}
    page = body_of(await http.post(f"{REVIEWS}/search", json=search), dict)
    assert page["totalCount"] == 2
    assert [row["id"] for row in page["results"]] == [id, other]
    row, untouched = page["results"]
    assert row == await facade.review(id)
    assert (row["storeId"], row["userId"], row["reviewStatusId"]) == (store, "u-1", 2)
    assert (row["moderator"], row["moderationReason"]) == (None, "Spam")
    assert row["modifiedDate"] > untouched["modifiedDate"] == untouched["createdDate"]
    (plain, _) = (await facade.page(**search))["results"]
    assert {"storeId", "userId", "modifiedDate", "moderator", "moderationReason"} <= row.keys() - plain.keys()
    assert plain.items() <= row.items()
    behind = body_of(await http.post(f"{REVIEWS}/search", json={**search, "take": 1}), dict)
    following = body_of(await http.post(f"{REVIEWS}/search", json={**search, "after": behind["next"]}), dict)
    assert ids_of([following]) == [other]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"startDate": "2022-01-01"},
        {"keyword": "sharp"},
        {"startRating": 1, "reviewStatus": "New", "take": 0, "sort": "title"},
        {"entityType": "Product"},
        {"userId": "u-1"},
    ],
)
async def test_counts_by_status(
    facade: Facade, http: httpx.AsyncClient, reviewed: tuple[str, list[str]], more: Json
) -> None:
    entity, _ = reviewed
    search = {"entityIds": [entity], **more}
    counts = body_of(await http.post(f"{REVIEWS}/counts", json=search), dict)
    listed = [
        (await facade.page(**{**search, "reviewStatus": status, "take": 0, "sort": ""}))["totalCount"]
        for status in range(3)
    ]
    assert counts == dict(zip(("New", "Approved", "Rejected"), listed, strict=True))
    if not {"userId", "keyword"} & more.keys():
        assert counts == {"New": 6, "Approved": 4, "Rejected": 1}
    nothing = body_of(await http.post(f"{REVIEWS}/counts", json={"entityIds": [new_id()]}), dict)
    assert nothing == {"New": 0, "Approved": 0, "Rejected": 0}


async def test_approved_and_other_reviews_are_counted_without_reading_them(database: Database) -> None:
    await ensure_indexes(database, remember_days=7)
    await SchemaMarks(database).mark_fresh()
    fields: Json = {"entityType": "Product", "entityId": "1", "storeId": None, "createdDate": datetime.now(UTC)}
    statuses = [1] * 200 + [0, 0, 2]
    await database["reviews"].insert_many(
        [{**fields, "_id": f"{n:03}", "status": each, **queue_fields(each)} for n, each in enumerate(statuses)]
    )
    await database["ratings"].insert_one({"entityType": "Product", "entityId": "1", "storeId": None, "count": 200})
    some: Any = SimpleNamespace(
        ratings=RatingRepository(database), reviews=ReviewRepository(database), large_counts=LargeCounts()
    )
    await database.command("profile", 2)
    numbers = [
        await count_reviews(some, ReviewSearch(statuses=each))
        for each in ([ReviewStatus.NEW, ReviewStatus.APPROVED], list(ReviewStatus))
    ]
    await database.command("profile", 0)
    assert numbers == [202, 203]
    looks = await database["system.profile"].find({"ns": f"{database.name}.reviews"}).to_list()
    assert max(look["docsExamined"] for look in looks) <= 2


async def test_objects_without_a_type_are_found_by_indexes(database: Database) -> None:
    await ensure_indexes(database, remember_days=7)
    at, types = datetime.now(UTC), ("Product", "Vendor", "Order")
    keys: list[Json] = [{"entityType": types[n % 3], "entityId": f"{n // 3}", "storeId": None} for n in range(600)]
    reviews = [{**key, "_id": f"{n:03}", "createdDate": at, "status": 1} for n, key in enumerate(keys)]
    await database["reviews"].insert_many([*reviews, {"_id": "lost", "entityId": "7", "createdDate": at}])
    await database["ratings"].insert_many([{**key, "count": 1} for key in keys])
    search = ReviewSearch(entity_ids=["7"])
    helpful = replace(search, sort=[(ReviewSortField.HELPFUL, Direction.DESC)])
    approved = replace(search, statuses=[ReviewStatus.APPROVED])
    await database.command("profile", 2)
    repository, ratings = ReviewRepository(database), RatingRepository(database)
    pages = [await repository.search(each) for each in (search, helpful)]
    assert [await repository.count(search, exact_below=9), await ratings.count_reviews(approved)] == [4, 3]
    await database.command("profile", 0)
    assert [[review.id for review in page.reviews] for page in pages] == [["lost", "023", "022", "021"]] * 2
    looks = await database["system.profile"].find({"ns": {"$ne": f"{database.name}.system.profile"}}).to_list()
    examined = {(look.get("planSummary"), look["docsExamined"] < 10, look["keysExamined"] < 30) for look in looks}
    assert {look[1:] for look in examined} == {(True, True)}, examined


async def test_images_count_once_available(database: Database) -> None:
    images: Json = {"there": [{"id": "a", "pending": True}, {"id": "b"}], "hidden": [{"id": "a", "hidden": True}]}
    images |= {"awaited": [{"id": "a", "pending": True}], "none": []}
    reviews: list[Json] = [{"_id": id, "createdDate": datetime.now(UTC), "images": images[id]} for id in images]
    await database["reviews"].insert_many([*reviews, {"_id": "old", "createdDate": datetime.now(UTC)}])
    found = [
        {review.id for review in (await ReviewRepository(database).search(search)).reviews}
        for search in (ReviewSearch(has_images=True), ReviewSearch(has_images=False))
    ]
    assert found == [{"there", "hidden"}, {"awaited", "none", "old"}]


async def test_reviews_with_unseen_images_are_found_by_their_index(database: Database) -> None:
    hidden = {"id": "a", "hidden": True, "unseen": True}
    images: Json = {"unseen": [{"id": "b"}, hidden], "pending": [{**hidden, "pending": True}], "none": []}
    images |= {"decided": [{"id": "a", "hidden": True}], "both": [hidden, {**hidden, "id": "b", "pending": True}]}
    at = datetime.now(UTC)
    fields: Json = {"createdDate": at, "status": 1, "storeId": "s", "entityType": "Product", "entityId": "1"}
    await ensure_indexes(database, remember_days=7)
    reviews = [{**fields, "_id": id, "images": each} for id, each in images.items()]
    await database["reviews"].insert_many([*reviews, *({**fields, "_id": f"{n:03}"} for n in range(500))])
    repository, unseen = ReviewRepository(database), ReviewSearch(has_unseen_images=True)
    searches = [
        unseen,
        replace(unseen, statuses=[ReviewStatus.APPROVED]),
        replace(unseen, stores=["s"]),
        replace(unseen, sort=[(ReviewSortField.TITLE, Direction.ASC)]),
    ]
    await database.command("profile", 2)
    pages = [await repository.search(each) for each in searches]
    counts = [await repository.count(each, exact_below=9) for each in searches]
    await database.command("profile", 0)
    looks = await database["system.profile"].find({"ns": f"{database.name}.reviews"}).to_list()
    others = await repository.count(ReviewSearch(has_unseen_images=False), exact_below=9)
    assert [{review.id for review in page.reviews} for page in pages] == [{"unseen", "both"}] * 4
    assert (counts, others) == ([2] * 4, 503)
    assert [look.get("planSummary") for look in looks if look["docsExamined"] > 3] == []
