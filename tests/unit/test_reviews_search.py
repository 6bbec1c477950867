import json
from datetime import UTC, datetime
from typing import Any

import pytest

from api.reviews.search import REVIEW_SEARCH
from api.web.bodies import parse_json
from api.web.problems import ProblemError
from domain.reviews import ReviewStatus
from domain.sorting import Direction
from storage.reviews_search import ReviewSearch, ReviewSortField
from tests.support.app import places_in


def criteria(**fields: Any) -> ReviewSearch:
    return parse_json(REVIEW_SEARCH, json.dumps(fields).encode()).criteria()


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
def test_what_is_empty_does_not_restrict(fields: dict[str, Any]) -> None:
    assert criteria(**fields) == ReviewSearch(sort=[])


def test_everything_at_once() -> None:
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
        sort=[(ReviewSortField.RATING, Direction.DESC), (ReviewSortField.TITLE, Direction.ASC)],
        skip=7,
        take=0,
    )


def test_rating_bounds_far_off_stay_numbers() -> None:
    found = criteria(startRating=-1e300, endRating=1e300)
    assert (found.lowest_rating, found.highest_rating) == (0, 600)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"reviewStatus": "Nw"}, "/reviewStatus"),
        ({"reviewStatus": 1}, "/reviewStatus"),
        ({"reviewStatus": ["New", None]}, "/reviewStatus/1"),
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
def test_the_place_of_an_error_is_named(fields: dict[str, Any], pointer: str) -> None:
    assert [place for place, _ in places_in(REVIEW_SEARCH, fields)] == [pointer]


@pytest.mark.parametrize("sort", ["color", "rating:up", "rating;;color"])
def test_an_unknown_sort_is_a_bad_request(sort: str) -> None:
    with pytest.raises(ProblemError) as caught:
        criteria(sort=sort)
    assert caught.value.kind.status == 400
