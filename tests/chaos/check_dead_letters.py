"""Checks that unusable records are dead letters with the code of their kind, and no others are."""

from collections.abc import Sequence

from tests.chaos.difference import Difference
from tests.chaos.model import Model
from tests.chaos.record_kinds import expected_codes
from tests.support.service import FLOW, Service

Place = tuple[str, int, int]
"""Full topic name, partition and offset of a record."""

UNREADABLE_CODES = ("undecodable", "too-large")
"""Error codes of records that no client can decode or that are too large."""

REVIEW_NOT_FOUND = "review-not-found"
"""Error code of a command whose review wasn't submitted within an hour."""

INVALID_JSON = "invalid-json"
"""Error code of poison."""


async def wrong_dead_letters(service: Service, model: Model) -> list[Difference]:
    """Each unusable record is a dead letter with the code of its kind, and no usable record is one: it would be
    lost."""
    missing, found = set(model.poison), []
    unreadable = dict(model.unreadable)
    for topic in FLOW:
        for record in await service.records(f"{topic}.dlq"):
            value = (record.value or b"").decode(errors="replace")
            headers = {name: (content or b"").decode(errors="replace") for name, content in record.headers}
            if headers["x-source-topic"] != service.topic(topic):
                found.append(Difference("wrong", value[:80], f"dead letter in {topic}.dlq names {headers}"))
            place = headers["x-source-topic"], int(headers["x-source-partition"]), int(headers["x-source-offset"])
            unreadable.pop(place, None)
            allowed = allowed_codes(model, value, (record.key or b"").decode(errors="replace"), place)
            if headers["x-error-code"] not in allowed:
                found.append(Difference("lost", value[:80], f"unexpected dead letter of {topic}: {headers}"))
            else:
                missing.discard(value)
    found += [Difference("lost", mark, "poison is not a dead letter") for mark in missing]
    return found + [
        Difference("lost", str(place), f"{kind} is not a dead letter") for place, kind in unreadable.items()
    ]


def allowed_codes(model: Model, value: str, key: str, place: Place) -> Sequence[str]:
    """Error codes that a dead letter may have; empty if the message should have been applied."""
    if value in model.poison:
        return [INVALID_JSON]
    if kind := model.unreadable.get(place):
        return expected_codes(kind)
    # A run of more than an hour gives up on commands whose review never came.
    not_found = [REVIEW_NOT_FOUND] if key not in model.reviews else []
    # A record that was written although Kafka didn't acknowledge it has an unknown offset.
    return [*not_found, *(UNREADABLE_CODES if place[:2] in model.unacknowledged else ())]
