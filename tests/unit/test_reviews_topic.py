"""The records of the topic of reviews, its settings, and the errors that make a change stream unrecoverable."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pymongo.errors import AutoReconnect, OperationFailure, PyMongoError

from domain.ratings import Entity
from domain.reviews import Review, ReviewStatus
from domain.reviews_facts import NO_FACTS, NO_RESPONSES, Facts, ReasonCode, Reply, Responses, ReviewImage, Source
from messaging.reviews_state import review_state, state_record, tombstone
from messaging.topics import Topic, TopicLayout, TopicNames, topic_settings
from storage.reviews.changes import HistoryLostError, stream_error
from storage.reviews.documents import document_of, review_from
from storage.reviews.facts import STORED_FACTS

WRITTEN = datetime(2026, 3, 14, 9, 26, 53, 589_000, UTC)
REVIEW = Review(
    *("r-1", Entity("Product", "p-1"), None, "s-1", "u-1", "Ann", "Sharp", "To the edges", 450, WRITTEN, WRITTEN),
    status=ReviewStatus.REJECTED,
    moderator="Mo",
    moderation_reason="Not about the lens",
    reason_code=ReasonCode.OFF_TOPIC,
    facts=Facts(verified_purchase=True, source=Source.KAFKA, language="en"),
    reply=Reply("Thank you", "The shop", WRITTEN, WRITTEN),
    responses=Responses(helpful=3, not_helpful=1),
    flags=("links",),
    images=(ReviewImage("i-1", is_hidden=True),),
)
NAMES = TopicNames("p.")


def test_record_has_the_whole_review() -> None:
    record = state_record("p.reviews", review_state(REVIEW))
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
        "reasonCode": "off-topic",
        "verifiedPurchase": True,
        "incentivized": False,
        "source": "kafka",
        "language": "en",
        "reply": {
            "text": "Thank you",
            "author": "The shop",
            "createdDate": "2026-03-14T09:26:53.589Z",
            "modifiedDate": "2026-03-14T09:26:53.589Z",
        },
        "helpful": 3,
        "notHelpful": 1,
        "reports": 0,
        "flags": ["links"],
        "images": [{"id": "i-1", "hidden": True}],
    }


def test_stored_review_round_trips() -> None:
    assert review_from(document_of(REVIEW) | {"moderator": "Mo", "moderationReason": "Not about the lens"}) == REVIEW
    plain = replace(REVIEW, reply=None, facts=NO_FACTS, responses=NO_RESPONSES, flags=(), images=(), reason_code=None)
    assert not set(STORED_FACTS) & document_of(plain).keys()


def test_tombstone_has_no_value() -> None:
    record = tombstone("p.reviews", "r-1")
    assert (record.topic, record.key, record.value) == ("p.reviews", b"r-1", None)
    assert dict(record.headers)["ce_type"] == b"plaudit.ReviewGone"


def test_only_the_topic_of_reviews_is_compacted() -> None:
    settings = {topic: topic_settings(NAMES.name(topic), NAMES, TopicLayout()) for topic in Topic}
    compacted = settings.pop(Topic.REVIEWS)
    lags = [compacted[f"{bound}.compaction.lag.ms"] for bound in ("min", "max")]
    assert (compacted["cleanup.policy"], lags) == ("compact", ["86400000", "86400000"])
    assert {(each["cleanup.policy"], each["retention.ms"]) for each in settings.values()} == {("delete", "604800000")}


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [
        (OperationFailure("ChangeStreamHistoryLost", 286), True),
        (OperationFailure("the resume token was not found", 280), True),
        (OperationFailure("not authorized", 13), False),
        (AutoReconnect("connection closed"), False),
    ],
)
def test_lost_history_is_distinguished_from_temporary_errors(error: PyMongoError, is_lost: bool) -> None:
    assert isinstance(stream_error(error), HistoryLostError) is is_lost
    assert is_lost or stream_error(error) is error
