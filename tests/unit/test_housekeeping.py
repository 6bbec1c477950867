"""Housekeeping: what the unread records of a topic tell about the time up to which it has been read."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from consumers.housekeeping import PARKING_LIMIT, read_up_to
from messaging.topics import Topic

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("unread", "expected"),
    [
        (None, NOW),
        (NOW - timedelta(hours=2), NOW - timedelta(hours=2)),
        (NOW + timedelta(seconds=2), NOW),
    ],
    ids=["nothing", "old", "small skew"],
)
async def test_topic_is_read_up_to_its_next_record(unread: datetime | None, expected: datetime) -> None:
    lag = AsyncMock(**{"oldest_unread.return_value": unread and unread.timestamp()})
    found = await read_up_to(cast(Any, lag), Topic.REVIEW_SUBMISSIONS, NOW)
    assert found == expected
    assert found - PARKING_LIMIT < NOW
