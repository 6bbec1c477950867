import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from api.reviews.search import REVIEW_SEARCH, ReviewSearchRequest
from api.web.bodies import parse_json
from api.web.cursors import cursor
from api.web.problems import ProblemError
from domain.ratings import Entity
from domain.reviews import Review, ReviewStatus
from domain.sorting import Direction
from storage.keyset import position_of
from storage.reviews.documents import document_of
from storage.reviews.search import ReviewPage, ReviewSearch, ReviewSortField, order, tallied
from storage.reviews.search import criteria as filter_of
from tests.support.app import places_in


def request_of(**fields: Any) -> ReviewSearchRequest:
    return parse_json(REVIEW_SEARCH, json.dumps(fields).encode())


def criteria(**fields: Any) -> ReviewSearch:
    return request_of(**fields).criteria()


def refusal_of(**fields: Any) -> ProblemError:
    with pytest.raises(ProblemError) as caught:
        criteria(**fields)
    return caught.value


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"reviewStatus": None, "sort": "", "take": 20, "skip": 0},
        {"reviewStatus": None, "sort": None, "take": None, "skip": None, "searchPhrase": None, "entityType": None},
        {"reviewStatus": "", "entityType": "", "entityIds": [], "storeId": "", "searchPhrase": ""},
        {"reviewStatus": [], "entityIds": None, "startDate": None, "endRating": None, "unknown": 1},
    ],
)
def test_empty_criteria_do_not_restrict(fields: dict[str, Any]) -> None:
    assert criteria(**fields) == ReviewSearch(sort=[])


def test_all_criteria_together() -> None:
    found = criteria(
        reviewStatus=["new", "APPROVED"],
        entityType="Product",
        entityIds=["1", "2"],
        storeId="Electronics",
        userId="u",
        searchPhrase="a.b",
        startDate="2022-10-04",
        endDate="2022-10-05T02:00:00+02:00",
        startRating=1.1,
        endRating=4.999,
        verifiedPurchase=False,
        language="de_at",
        sort="rating:desc;title",
        take=0,
        skip=7,
    )
    assert found == ReviewSearch(
        statuses=[ReviewStatus.NEW, ReviewStatus.APPROVED],
        entity_types=["Product"],
        entity_ids=["1", "2"],
        store_id="Electronics",
        user_id="u",
        phrase="a.b",
        created_from=datetime(2022, 10, 4, tzinfo=UTC),
        created_to=datetime(2022, 10, 5, tzinfo=UTC),
        lowest_rating=110,
        highest_rating=499,
        is_verified=False,
        language="de-AT",
        sort=[(ReviewSortField.RATING, Direction.DESC), (ReviewSortField.TITLE, Direction.ASC)],
        skip=7,
        take=0,
    )


def test_filters_by_facts() -> None:
    def filtered(**fields: Any) -> Any:
        conditions = filter_of(criteria(**fields))
        return {name: conditions.get(name) for name in ("verifiedPurchase", "language")}

    assert filtered() == {"verifiedPurchase": None, "language": None}
    assert filtered(verifiedPurchase=True, language="") == {"verifiedPurchase": True, "language": None}
    found = filtered(verifiedPurchase=False, language="de")
    assert found == {"verifiedPurchase": {"$ne": True}, "language": {"$regex": "^de(-|$)"}}
    # Tallies have no counts by these facts.
    approved: dict[str, Any] = {"reviewStatus": "Approved", "entityIds": ["1"]}
    assert tallied(criteria(**approved)) is not None
    for fact in ({"verifiedPurchase": False}, {"verifiedPurchase": True}, {"language": "de"}):
        assert tallied(criteria(**approved, **fact)) is None


def test_extreme_rating_bounds_stay_within_range() -> None:
    found = criteria(startRating=-1e300, endRating=1e300)
    assert (found.lowest_rating, found.highest_rating) == (0, 600)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"reviewStatus": "Nw"}, "/reviewStatus"),
        ({"reviewStatus": len(ReviewStatus)}, "/reviewStatus"),
        ({"reviewStatus": True}, "/reviewStatus"),
        ({"reviewStatus": 0.5}, "/reviewStatus"),
        ({"reviewStatus": {}}, "/reviewStatus"),
        ({"reviewStatus": ["New", None]}, "/reviewStatus/1"),
        ({"reviewStatus": [0, [1]]}, "/reviewStatus/1"),
        ({"ids": ["1", ""]}, "/ids/1"),
        ({"objectIds": "1"}, "/objectIds"),
        ({"keyword": 1}, "/keyword"),
        ({"withTotal": "no"}, "/withTotal"),
        ({"after": 1}, "/after"),
        ({"after": "a" * 65_537}, "/after"),
        ({"take": -1}, "/take"),
        ({"take": 1_001}, "/take"),
        ({"take": 10**40}, "/take"),
        ({"take": "20"}, "/take"),
        ({"skip": 2**31}, "/skip"),
        ({"searchPhrase": "\x00"}, "/searchPhrase"),
        ({"searchPhrase": "a" * 1_025}, "/searchPhrase"),
        ({"startDate": "yesterday"}, "/startDate"),
        ({"startDate": 1664855203}, "/startDate"),
        ({"endDate": "0001-01-01T00:00:00+14:00"}, "/endDate"),
        ({"startRating": "3"}, "/startRating"),
        ({"entityIds": ["1", 2]}, "/entityIds/1"),
        ({"entityIds": ["1"] * 1_001}, "/entityIds"),
    ],
)
def test_error_names_its_field(fields: dict[str, Any], pointer: str) -> None:
    assert [place for place, _ in places_in(REVIEW_SEARCH, fields)] == [pointer]


@pytest.mark.parametrize(
    ("value", "statuses"),
    [
        (0, [ReviewStatus.NEW]),
        (2.0, [ReviewStatus.REJECTED]),
        ([1], [ReviewStatus.APPROVED]),
        (" nEW ", [ReviewStatus.NEW]),
        ([0, "rejected"], [ReviewStatus.NEW, ReviewStatus.REJECTED]),
    ],
)
def test_statuses_by_name_or_number(value: Any, statuses: list[ReviewStatus]) -> None:
    assert criteria(reviewStatus=value).statuses == statuses


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"keyword": "a"}, {"phrase": "a"}),
        ({"keyword": "a", "searchPhrase": "a"}, {"phrase": "a"}),
        ({"keyword": None, "searchPhrase": "a"}, {"phrase": "a"}),
        ({"objectIds": ["1"]}, {"ids": ["1"]}),
        ({"ids": ["1"], "objectIds": []}, {"ids": ["1"]}),
    ],
)
def test_synonymous_fields(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert criteria(**fields) == ReviewSearch(sort=[], **expected)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"keyword": "a", "searchPhrase": "b"}, "/keyword"),
        ({"ids": ["1"], "objectIds": ["2"]}, "/objectIds"),
        ({"after": "x", "skip": 1}, "/skip"),
    ],
)
def test_contradicting_fields_are_refused(fields: dict[str, Any], pointer: str) -> None:
    with pytest.raises(ProblemError) as caught:
        criteria(**fields)
    assert [(error["pointer"], error["code"]) for error in caught.value.errors] == [(pointer, "contradicts")]


AT = datetime(2022, 10, 4, 3, 46, 43, 433_000, tzinfo=UTC)
REVIEW = Review("r", Entity("Product", "1"), None, "s", "u", None, None, "text", 450, AT, AT)


@pytest.mark.parametrize("sort", ["", *ReviewSortField, "storeName;storeId:desc;title", "rating;id:desc;userName"])
def test_next_page_begins_after_the_last_review(sort: str) -> None:
    request = request_of(sort=sort, reviewStatus=["New"], entityIds=["1"])
    search = request.criteria()
    position = position_of(document_of(REVIEW), order(search))
    after = request.next_page(search, ReviewPage([REVIEW], {}, position))
    following = criteria(sort=sort, reviewStatus=["New"], entityIds=["1"], after=after, take=7, withTotal=False)
    assert following == replace(search, after=position, take=7)
    assert request.next_page(search, ReviewPage([REVIEW], {})) is None


@pytest.mark.parametrize("changed", [{"sort": "rating"}, {"reviewStatus": 1}, {"userId": "u"}, {"keyword": "a"}])
def test_page_of_another_list_is_refused(changed: dict[str, Any]) -> None:
    request = request_of(sort="")
    search = request.criteria()
    after = request.next_page(search, ReviewPage([REVIEW], {}, position_of(document_of(REVIEW), order(search))))
    assert criteria(sort="createdDate:desc", after=after).after is not None  # the same list
    refused = refusal_of(after=after, **changed)
    assert [(error["pointer"], error["code"]) for error in refused.errors] == [("/after", "unknown-page")]


LIST: Any = [{}, [["createdDate", -1], ["_id", -1]]]


POSITIONS: list[list[Any]] = [
    *([], [AT], ["2022", "r"], [AT, None], [AT, 1], [1, "r"], [AT, "r", "r"], [True, "r"]),
    *([[2**63], "r"], [["a"], "r"], [[1, 2], "r"], [{"$gt": 1}, "r"], [2**60, "r"], [[2**52], "r"]),
]


@pytest.mark.parametrize(
    "after",
    [
        *("x", "é", "=", "null", "e30", "W10", "WzFd"),
        *(cursor(place, LIST) for place in POSITIONS),
        cursor([AT, "r"], LIST)[:-4],
    ],
)
def test_invalid_position_is_refused(after: str) -> None:
    assert [error["pointer"] for error in refusal_of(after=after).errors] == ["/after"]


def test_handwritten_position_is_accepted() -> None:
    assert criteria(after=cursor([AT, "r"], LIST)).after == [AT, "r"]


@pytest.mark.parametrize("sort", ["color", "rating:up", "rating;;color"])
def test_unknown_sort_is_a_bad_request(sort: str) -> None:
    with pytest.raises(ProblemError) as caught:
        criteria(sort=sort)
    assert caught.value.kind.status == 400
