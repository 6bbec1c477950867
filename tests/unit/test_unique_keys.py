"""Unique keys are stored, and so must stay stable."""

from typing import Any, cast

import pytest

from domain.ratings import Entity
from domain.reviews import ReviewIdentity
from domain.unique_keys import only_review_key
from storage.unique_keys import COLLECTION, UniqueKeyRepository

ANNAS = ReviewIdentity(Entity("Product", "camera"), "shop", "anna")


def test_key_of_an_only_review_is_stable() -> None:
    digest = "ca13c6b6a9c1510c966a90f264c3e74f6c1d913a5edfb88f2b14016cba01bd17"
    assert only_review_key(ANNAS) == f"only-review/{digest}"


@pytest.mark.parametrize(
    "other",
    [
        ANNAS._replace(user_id="bert"),
        ANNAS._replace(store_id=None),
        ANNAS._replace(entity=Entity("Lens", "camera")),
        ANNAS._replace(entity=Entity("Product", "tripod")),
        ANNAS._replace(entity=Entity("shop", "Product"), store_id="camera"),
    ],
    ids=["customer", "store", "type", "object", "order of the parts"],
)
def test_different_reviews_have_different_keys(other: ReviewIdentity) -> None:
    assert only_review_key(other) != only_review_key(ANNAS)
    assert "anna" not in only_review_key(other), "no personal data"


async def test_no_query_without_keys() -> None:
    database = cast(Any, {COLLECTION: None})
    assert await UniqueKeyRepository(database).holders((), cast(Any, None)) == {}
