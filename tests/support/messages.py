"""Messages as upstream systems send them."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

Headers = Sequence[tuple[str, bytes | None]]


class Message(NamedTuple):
    """Key, value, headers, and timestamp in milliseconds; None: now."""

    key: str | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None


def message(value: Any, key: str | None = None, headers: Headers = ()) -> Message:
    """A message with a JSON value."""
    return Message(key, json.dumps(value).encode(), headers)


def review_message(review: dict[str, Any]) -> Message:
    """A submission with its object as key."""
    return message(review, f"{review.get('EntityType')}:{review.get('EntityId')}")


def moderation(action: str, *ids: str, key: str | None = None, **more: Any) -> Message:
    """A moderation command; by default its first review is the key."""
    return message({"action": action, "ids": ids, **more}, key or ids[0])
