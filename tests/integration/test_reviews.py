"""Reviews over HTTP: submitted, listed, read, deleted."""

import asyncio
import itertools
import re
import uuid
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import eq

import httpx
import pytest

from tests.support.facade import REVIEWS, Facade, body_of, new_id, problem_of, submission
from tests.support.retries import retry_until_served
from tests.support.service import Json, Service
from tests.support.waiting import eventually

LISTED_FIELDS = [
    *("id", "entityId", "entityName", "entityType", "reviewStatus", "reviewStatusId"),
    *("title", "review", "rating", "userName", "storeName", "createdDate"),
]
RATING_FIELDS = ["storeName", "storeId", "entityId", "entityType", "value", "reviewCount"]


async def test_samples_of_the_specification(facade: Facade, http: httpx.AsyncClient, product: str) -> None:
    store = await facade.open_store(new_id("Electronics"))
    texts = {"title": "Flies well", "review": "Steady in the wind.", "rating": 5, "userName": "Anna Berg"}
    of = {"storeId": store, "userId": "6f1c8b2e", "EntityId": product, "EntityType": "Product", "EntityName": "Solo"}
    post = partial(http.post, REVIEWS, json=[{**texts, **of}])
    (id,) = body_of(await retry_until_served(post), dict, 202)["ids"]

    async def listed() -> list[Json]:
        page = await facade.page(reviewStatus=None, sort="", take=1_000, skip=0)
        page.pop("next", None)  # if other tests have written more than a page
        assert list(page) == ["totalCount", "results"]
        return [row for row in page["results"] if row["id"] == id]

    (row,) = await eventually(listed)
    assert list(row) == LISTED_FIELDS
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row.pop("createdDate"))
    status = {"reviewStatus": "New", "reviewStatusId": 0}
    entity = {"entityId": product, "entityType": "Product", "entityName": "Solo"}
    assert row == {"id": str(uuid.UUID(id)), **texts, **status, **entity, "storeName": store}
    waiting = {"reviewStatus": "New", "entityType": "Product", "searchPhrase": "wind", "sort": "createdDate:desc"}
    assert id in await facade.listed(**waiting, take=20, skip=0)

    async def current() -> object:
        review = await facade.review(id)
        return review["reviewStatus"], review["reviewStatusId"]

    steps = {"approve": ("Approved", 1), "reject": ("Rejected", 2), "reset": ("New", 0)}
    for action in ("approve", "reject", "approve", "reset"):
        body_of(await http.post(f"{REVIEWS}/{action}", json=[id]), dict, 202)
        await eventually(current, partial(eq, steps[action]))
        rating = await facade.ratings(product)
        assert [list(found) for found in rating] == ([RATING_FIELDS] if action == "approve" else [])
        for found in rating:
            place = {"storeName": store, "storeId": store, "entityId": product, "entityType": "Product"}
            assert found == {**place, "value": 5.0, "reviewCount": 1}

    body_of(await http.request("DELETE", REVIEWS, json={"ids": [id]}), dict, 202)
    await eventually(listed, lambda rows: not rows)
    assert (await http.get(f"{REVIEWS}/{id}")).status_code == 404


@pytest.mark.long
async def test_filters(facade: Facade) -> None:
    store, one, other = await facade.open_store(), new_id(), new_id()
    a, b, c, d = await facade.submit(
        submission(one, 1, storeId=store),
        submission(one, 2.5, userId="ben"),
        submission(other, 3),
        submission(other, 5, EntityType="Vendor"),
    )
    await facade.moderate("approve", a, c)
    await facade.moderate("reject", d)
    both = {"entityIds": [one, other]}

    async def found(**search: object) -> set[str]:
        page = await facade.page(**both, **search)
        found = {row["id"] for row in page["results"]}
        assert page["totalCount"] == len(found)
        assert await facade.page(**both, **search, take=0) == {"totalCount": len(found), "results": []}
        return found

    assert await found() == {a, b, c, d}
    assert await found(reviewStatus=None, entityType="", searchPhrase="", storeId=None) == {a, b, c, d}
    assert await found(reviewStatus="New") == {b}
    assert await found(reviewStatus="approved") == {a, c}
    assert await found(reviewStatus="Approved", storeId=store) == {a}
    assert await found(reviewStatus="Approved", entityType="Product") == {a, c}
    assert await found(reviewStatus="Approved", entityType="Vendor") == set()
    assert await found(reviewStatus="Approved", startRating=2) == {c}
    assert await found(reviewStatus=["Approved", "New"]) == {a, b, c}
    assert await found(reviewStatus=["Rejected", "New"]) == {b, d}
    assert await found(reviewStatus=[]) == {a, b, c, d}
    assert await found(entityType="Vendor") == {d}
    assert await found(storeId=store) == {a}
    assert await found(userId="ben") == {b}
    assert await found(startRating=2.5, endRating=3) == {b, c}
    assert await found(startRating=2.51) == {c, d}
    assert await found(endRating=0) == set()
    assert await facade.listed(entityIds=[new_id()]) == []

    created = (await facade.listed("createdDate", **both))[-1]
    assert await found(startDate=created, endDate="2999-01-01") == {a, b, c, d}
    assert await found(startDate="", endDate="") == {a, b, c, d}
    assert await found(endDate=created, startDate=created) >= {a}
    # Between its millisecond and the next one, as requested by clients with finer clocks.
    (exactly,) = await facade.listed("createdDate", **both, ids=[a])
    assert a in await found(startDate=exactly.replace("Z", "0000Z"))
    assert a not in await found(startDate=exactly.replace("Z", "0010Z"))
    assert await found(startDate="2999-01-01T00:00:00+02:00") == set()


@pytest.mark.parametrize(
    ("field", "values"),
    [("rating", [1, 2, 2.5, 5]), ("title", ["A", "B", "a", "é"]), ("userName", ["a", "b", "c", "d"])],
)
async def test_sorts(facade: Facade, field: str, values: list[object], product: str) -> None:
    await facade.submit(*(submission(product, **{field: value}) for value in reversed(values)))  # type: ignore[arg-type]
    assert await facade.listed(field, entityIds=[product], sort=field) == values
    assert await facade.listed(field, entityIds=[product], sort=f"{field}:asc") == values
    assert await facade.listed(field, entityIds=[product], sort=f"{field}:DESC") == values[::-1]


@pytest.mark.long
async def test_sorts_by_several_fields_and_by_date(facade: Facade, product: str) -> None:
    first = await facade.submit(submission(product, 1), submission(product, 2))
    second = await facade.submit(submission(product, 1), submission(product, 2))
    await facade.moderate("approve", first[0])
    newest = await facade.listed(entityIds=[product])
    assert set(newest[:2]) == set(second)
    assert await facade.listed(entityIds=[product], sort="createdDate:desc") == newest
    assert await facade.listed(entityIds=[product], sort="createdDate:asc") == newest[::-1]
    by_rating = [first[1], second[1], first[0], second[0]]
    assert await facade.listed(entityIds=[product], sort="rating:desc;createdDate:asc") == by_rating
    assert (await facade.listed(entityIds=[product], sort="reviewStatus:desc"))[0] == first[0]
    assert (await facade.listed(entityIds=[product], sort="modifiedDate:desc"))[0] == first[0]


@pytest.mark.long
async def test_sorts_all_reviews(facade: Facade, product: str) -> None:
    await facade.submit_approved(*(submission(product, n, title=product) for n in (2, 5, 1)))
    for status in (None, "Approved"):
        page = await facade.page(sort="rating:desc", take=1_000, reviewStatus=status)
        rows = page["results"]
        assert [row["rating"] for row in rows] == sorted((row["rating"] for row in rows), reverse=True)
        assert {row["reviewStatus"] for row in rows} <= ({status} if status else {"New", "Approved", "Rejected"})
        assert page["totalCount"] == (await facade.page(take=0, reviewStatus=status))["totalCount"] >= 3
        next_two = await facade.listed(sort="rating:desc", take=2, skip=1, reviewStatus=status)
        assert next_two == [row["id"] for row in rows[1:3]]
    found = await facade.page(sort="rating:desc", searchPhrase=product.upper())
    assert ([row["rating"] for row in found["results"]], found["totalCount"]) == ([5, 2, 1], 3)


@pytest.mark.parametrize("sort", ["", "rating", "title:desc;rating", "storeId:desc"])
async def test_pages_of_equal_reviews_do_not_overlap(facade: Facade, sort: str, product: str) -> None:
    ids = set(await facade.submit(*(submission(product) for _ in range(25))))
    pages = [
        await facade.page(entityIds=[product], sort=sort, take=take, skip=skip)
        for skip, take in ((0, 10), (10, 10), (20, 10), (25, 10))
    ]
    assert {page["totalCount"] for page in pages} == {25}
    assert [len(page["results"]) for page in pages] == [10, 10, 5, 0]
    assert {row["id"] for row in itertools.chain(*(page["results"] for page in pages))} == ids


async def test_take_and_skip(facade: Facade, http: httpx.AsyncClient, product: str) -> None:
    await facade.submit(*(submission(product) for _ in range(23)))
    assert await facade.page(entityIds=[product], take=0) == {"totalCount": 23, "results": []}
    assert len(await facade.listed(entityIds=[product])) == 20
    assert await facade.page(entityIds=[product], skip=2**31 - 1) == {"totalCount": 23, "results": []}
    for wrong in ({"take": 1_001}, {"take": -1}, {"skip": -1}, {"take": 1.5}, {"take": "20"}, {"skip": 2**63}):
        assert (await http.post(f"{REVIEWS}/reviewList", json=wrong)).status_code == 422


async def test_one_review(facade: Facade, http: httpx.AsyncClient) -> None:
    product, store = new_id(), await facade.open_store()
    (id,) = await facade.submit(submission(product, 3.25, storeId=store))
    await facade.command("PUT", f"/api/stores/{store}", {"name": "The shop"})
    review = await facade.review(id)
    assert list(review) == [
        *(*LISTED_FIELDS, "storeId", "userId", "modifiedDate", "moderator", "moderationReason", "reasonCode"),
        *("verifiedPurchase", "incentivized", "source", "language", "reply", "helpful", "notHelpful", "reports"),
        *("flags", "images", "writtenDate", "pendingImages", "unseenImages"),
    ]
    assert review["rating"] == 3.25
    assert (review["storeId"], review["storeName"], review["userId"]) == (store, "The shop", "anna")
    assert await facade.listed("storeName", entityIds=[product]) == ["The shop"]
    problem_of(await http.get(f"{REVIEWS}/{uuid.uuid4()}"), 404)


async def test_optional_fields_may_be_missing(facade: Facade, product: str) -> None:
    least = {"EntityId": product, "EntityType": "Product", "review": "Good", "rating": 2}
    lower = {"entityId": product, "entityType": "Product", "entityName": "A", "review": "Good", "rating": 4.75}
    nothing = {**least, "storeId": "", "userId": "", "userName": None, "title": None, "more": {"unknown": [1]}}
    ids = await facade.submit(least, lower, nothing)
    rows = {row["id"]: row for row in (await facade.page(entityIds=[product]))["results"]}
    assert set(rows) == set(ids)
    assert [rows[id]["storeName"] for id in ids] == [None] * 3
    assert [rows[id]["rating"] for id in ids] == [2, 4.75, 2]
    assert rows[ids[1]]["entityName"] == "A"


async def test_ids_given_by_the_sender(facade: Facade) -> None:
    product, id = new_id(), new_id("review")
    assert await facade.submit_approved(submission(product, 1, id=id)) == [id]
    again = await facade.command("POST", REVIEWS, [submission(product, 1, id=id)])
    assert again == [{"id": id, "outcome": "unchanged"}]
    assert await facade.rating(product) == (1.0, 1)
    assert await facade.listed("reviewStatus", entityIds=[product]) == ["Approved"]


@pytest.mark.long
async def test_delete_by_body_by_query_and_by_both(facade: Facade, http: httpx.AsyncClient, product: str) -> None:
    a, b, c, d, kept = await facade.submit(*(submission(product) for _ in range(5)))
    for body, query in (({"ids": [a]}, []), (None, [b]), ({"ids": [c]}, [d, d])):
        response = await http.request("DELETE", REVIEWS, json=body, params={"ids": query})
        assert response.status_code == 202, response.text
    await eventually(partial(facade.listed, entityIds=[product]), lambda ids: ids == [kept])
    nothings: list[Json] = [{}, {"json": {"ids": []}}, {"json": {}}]
    for nothing in nothings:
        assert (await http.request("DELETE", REVIEWS, **nothing)).status_code == 422


async def test_deletion_removes_everything_the_author_wrote(facade: Facade, service: Service, product: str) -> None:
    (id,) = await facade.submit_approved(submission(product, review="secret", userName="My Name", title="My title"))
    await facade.moderate("delete", id)
    assert set(await service.find("reviews", id)) == {"_id", "submittedAt", "writtenAt", "goneAt"}


@pytest.mark.slow
async def test_id_of_deleted_review_is_free_after_retention(
    own_service: Service, own_facade: Facade, product: str
) -> None:
    old, new = new_id("review"), new_id("review")
    await own_facade.submit(submission(product, id=old), submission(product, id=new))
    await own_facade.moderate("delete", old, new)
    long_ago = datetime.now(UTC) - timedelta(days=100)
    async with own_service.mongo() as database:
        await database["reviews"].update_one({"_id": old}, {"$set": {"goneAt": long_ago}})
    await own_service.restart("worker")
    await eventually(partial(own_service.find, "reviews", old), lambda left: left == {})
    assert await own_service.find("reviews", new)
    await own_facade.submit(submission(product, id=old))
    assert await own_facade.listed(entityIds=[product]) == [old]


async def test_changed_objects(facade: Facade, http: httpx.AsyncClient) -> None:
    old, submitted, moderated, gone = (new_id() for _ in range(4))
    oldest, first, second = await facade.submit(submission(old), submission(moderated), submission(gone))

    async def changed(moment: str) -> set[str]:
        response = await http.post(f"{REVIEWS}/changes", json={"modifiedDate": moment})
        return set(body_of(response, list)) & {old, submitted, moderated, gone}

    assert await changed((await facade.review(oldest))["modifiedDate"]) >= {old, moderated, gone}
    (newest,) = await facade.submit(submission(submitted))
    later = (await facade.review(newest))["modifiedDate"]
    await facade.moderate("approve", first)
    await facade.moderate("delete", second)
    assert await changed(later) - {old} == {submitted, moderated, gone}
    assert await changed("2999-01-01") == set()
    assert await changed("0001-01-01T00:00:00Z") >= {old, submitted, moderated}
    assert (await http.post(f"{REVIEWS}/changes", json={"modifiedDate": "yesterday"})).status_code == 422


@pytest.mark.long
async def test_object_changes_when_its_review_is_stored(own_service: Service, own_facade: Facade, product: str) -> None:
    changes = partial(own_facade.http.post, f"{REVIEWS}/changes")
    await own_service.end("worker")
    body_of(await own_facade.http.post(REVIEWS, json=[submission(product)]), dict, 202)
    await asyncio.sleep(3)  # longer than the tolerance for simultaneous changes
    since = datetime.now(UTC).isoformat()
    assert body_of(await changes(json={"modifiedDate": since}), list) == []
    own_service.start("worker")
    await own_facade.until_listed(product, 1)
    assert body_of(await changes(json={"modifiedDate": since}), list) == [product]
