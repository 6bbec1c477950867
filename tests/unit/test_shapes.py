"""Lists show stored documents with damaged fields."""

import pytest

from domain.ratings import Entity
from domain.reviews import ReviewStatus
from storage.database import Document
from storage.returns.documents import shown_from
from storage.reviews.documents import review_from, whole_review_from
from tests.support.stored import REVIEW as STORED
from tests.support.stored import WRITTEN

REVIEW: Document = {"_id": "r", **STORED}
RETURN: Document = {
    "_id": "t",
    "number": "RET260101-00001",
    "orderId": "o",
    "status": "Approved",
    "resolution": None,
    "lines": [],
    "createdDate": WRITTEN,
    "modifiedDate": WRITTEN,
    "createdBy": None,
    "modifiedBy": None,
    "seen": {},
}


@pytest.mark.parametrize("status", [len(ReviewStatus), -1, 7, 2**40])
def test_unknown_status_is_shown_as_missing(status: int) -> None:
    damaged = {**REVIEW, "status": status}
    shown = review_from(damaged)
    assert (shown.status, shown.text, shown.entity) == (ReviewStatus.NEW, "Good.", Entity("Product", "p"))
    assert whole_review_from(damaged) is None
    assert whole_review_from(REVIEW) is not None


@pytest.mark.parametrize("lines", [[5], [{"quantity": "two"}]])
def test_unusable_field_is_shown_as_missing(lines: list[object]) -> None:
    shown = shown_from({**RETURN, "lines": lines})
    assert (shown.number, shown.status, tuple(shown.lines)) == ("RET260101-00001", "Approved", ())
