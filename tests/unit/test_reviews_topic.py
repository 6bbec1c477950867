"""The records of the topic of reviews, its settings, and the errors that end a change stream for good."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from pymongo.errors import AutoReconnect, OperationFailure, PyMongoError

from domain.ratings import Entity
from domain.reviews import Review, ReviewStatus
from messaging.reviews_state import review_state, state_record, tombstone
from messaging.topics import Topic, TopicLayout, TopicNames, topic_settings
from storage.reviews_changes import HistoryLostError, stream_error

WRITTEN = datetime(2026, 3, 14, 9, 26, 53, 589_000, UTC)
REVIEW = Review(
    *("r-1", Entity("Product", "p-1"), None, "s-1", "u-1", "Ann", "Sharp", "To the edges", 450, WRITTEN, WRITTEN),
    status=ReviewStatus.REJECTED,
)
NAMES = TopicNames("p.")


def test_a_record_has_the_whole_review() -> None:
    record = state_record("p.reviews", review_state(REVIEW, "Mo", "Not about the lens"))
    assert record.key == b"r-1"
    assert json.loads(record.value or b"") == {
        "id": "r-1",
        "entityType": "Product",
        "entityId": "p-1",
        "entityName": None,
        "storeId": "s-1",
        "userId": "u-1",
        "userName": "Ann",
        "title": "Sharp",
        "review": "To the edges",
        "rating": 4.5,
        "reviewStatus": "Rejected",
        "reviewStatusId": 2,
        "createdDate": "2026-03-14T09:26:53.589Z",
        "modifiedDate": "2026-03-14T09:26:53.589Z",
        "moderator": "Mo",
        "moderationReason": "Not about the lens",
    }


def test_a_tombstone_has_no_value() -> None:
    record = tombstone("p.reviews", "r-1")
    assert (record.topic, record.key, record.value) == ("p.reviews", b"r-1", None)
    assert dict(record.headers)["ce_type"] == b"plaudit.ReviewGone"


def test_the_topic_is_compacted_within_a_day_and_others_are_not() -> None:
    settings = {topic: topic_settings(NAMES.name(topic), NAMES, TopicLayout()) for topic in Topic}
    compacted = settings.pop(Topic.REVIEWS)
    assert (compacted["cleanup.policy"], compacted["max.compaction.lag.ms"]) == ("compact", "86400000")
    assert all("cleanup.policy" not in each and each["retention.ms"] == "604800000" for each in settings.values())


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [
        (OperationFailure("ChangeStreamHistoryLost", 286), True),
        (OperationFailure("the resume token was not found", 280), True),
        (OperationFailure("not authorized", 13), False),
        (AutoReconnect("connection closed"), False),
    ],
)
def test_errors_that_no_retry_overcomes(error: PyMongoError, is_lost: bool) -> None:
    assert isinstance(stream_error(error), HistoryLostError) is is_lost
    assert is_lost or stream_error(error) is error
