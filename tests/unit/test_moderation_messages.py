"""The codec of moderation commands: encoded commands decode to the same in each format."""

import json
from datetime import UTC, datetime
from typing import Any

import bson
import pytest
from aiokafka import ConsumerRecord
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from domain.commands import CommandMark
from domain.delivery import RecordPosition
from domain.moderation import Moderation
from domain.reviews import ModerationAction, ReviewStatus
from domain.reviews_facts import ReasonCode, Source
from domain.reviews_moderated import Restored
from domain.timestamps import from_milliseconds
from messaging.decoding import Received
from messaging.moderation import (
    MODERATION_COMMAND,
    direct_position,
    direct_value,
    forwarded_value,
    moderation_fields,
    moderation_from,
    moderation_in,
    parked_value,
    routed_value,
)
from messaging.reading import Reader
from messaging.reading_errors import InvalidContentError
from messaging.reviews import REVIEW_CHANGE

READ = Reader(MODERATION_COMMAND)

ids = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
positions = st.builds(
    RecordPosition, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), st.integers(0, 253_402_300_799_999)
)
restorations = st.builds(
    Restored,
    st.sampled_from(ReviewStatus),
    st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(microsecond=at.microsecond // 1_000 * 1_000)),
    st.none() | st.lists(ids, max_size=3).map(tuple),
    st.none() | st.sampled_from(Source),
    st.none() | st.just("en"),
    st.booleans(),
)


@st.composite
def moderations(draw: st.DrawFn) -> Moderation:
    position, action = draw(positions), draw(st.sampled_from(ModerationAction))
    restored = draw(restorations) if action is ModerationAction.RESTORE else None
    is_rejection = action is ModerationAction.REJECT or (restored and restored.status is ReviewStatus.REJECTED)
    codes = st.sampled_from(ReasonCode) if is_rejection else st.nothing()
    return Moderation(
        review_id=draw(ids),
        action=action,
        position=position,
        at=from_milliseconds(position.timestamp),
        moderator=draw(st.none() | ids),
        reason=draw(st.none() | ids),
        expected=draw(st.none() | st.sampled_from(ReviewStatus)),
        command_id=draw(st.none() | ids),
        mark=draw(st.none() | st.builds(CommandMark, st.integers(1, 1_000), *[st.sampled_from(["", "0a", "ff"])] * 2)),
        stores=draw(st.none() | st.lists(ids, max_size=3)),
        trace=draw(st.just("") | ids),
        reason_code=draw(st.none() | codes),
        restored=restored,
        text_hash=draw(st.none() | st.sampled_from(["0" * 64, "a1" * 32])),
    )


@given(moderations())
@pytest.mark.long
def test_forwarded_command_round_trips(command: Moderation) -> None:
    change = REVIEW_CHANGE.validate_json(json.dumps(forwarded_value(command)))
    assert change.kind == "moderation"
    assert change.moderation(RecordPosition(9, 9, 9), command.at, command.trace, None) == command


@given(moderations(), positions)
@pytest.mark.long
def test_direct_command_keeps_its_own_position(command: Moderation, position: RecordPosition) -> None:
    value = direct_value(moderation_fields(command), command.review_id, command.text_hash)
    change = REVIEW_CHANGE.validate_json(json.dumps(value))
    assert change.kind == "moderation"
    assert change.moderation(position, command.at, command.trace, command.mark) == command._replace(position=position)


def test_positions_of_direct_commands_are_distinguishable() -> None:
    mark = CommandMark(3, "0a", "ff")
    headers = [("ce_commandmark", str(mark).encode())]
    value = json.dumps(direct_value({"action": "approve"}, "r", None)).encode()
    record = ConsumerRecord("changes", 7, 4, 3_000, 0, b"r", value, None, 0, 0, headers)
    change = REVIEW_CHANGE.validate_json(value)
    assert change.kind == "moderation"
    command = moderation_in(Received(record, change))
    assert (command.mark, command.at, command.arrived) == (mark, from_milliseconds(3_000), RecordPosition(7, 4, 3_000))
    assert command.position.partition > 7
    assert direct_position(command.position) == RecordPosition(7, 4, 3_000)
    assert direct_position(RecordPosition(7, 4, 3_000)) is None


@given(moderations())
@pytest.mark.long
def test_parked_command_round_trips_through_mongodb(command: Moderation) -> None:
    document: dict[str, Any] = {"_id": "1", "parkedAt": datetime.now(UTC), **parked_value(command)}
    assert moderation_from(bson.decode(bson.encode(document))) == command
    late = command._replace(arrived=RecordPosition(7, 12, 3_000))
    assert moderation_from(parked_value(late)) == late


@pytest.mark.parametrize(
    "wrong",
    [
        {"action": "restore"},
        {"action": "approve", "restored": {"status": "Approved", "modifiedDate": "2026-01-01T00:00:00Z"}},
        {"restored": {"status": "Approved", "modifiedDate": "2026-01-01T00:00:00Z"}, "reasonCode": "spam"},
        {"restored": {"status": "Gone", "modifiedDate": "2026-01-01T00:00:00Z"}},
        {"restored": {"status": "New"}},
        {"restored": {"status": "New", "modifiedDate": "2026-01-01T00:00:00Z", "by": "x"}},
    ],
)
def test_invalid_restoration_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MODERATION_COMMAND.validate_json(json.dumps({"action": "restore", "ids": ["R"], **wrong}))


@given(moderations())
@pytest.mark.long
def test_dead_letter_can_be_replayed(command: Moderation) -> None:
    fields = routed_value(moderation_fields(command), command.review_id, command.text_hash)
    value = MODERATION_COMMAND.validate_json(json.dumps(fields))
    assert value.moderations(command.position, command.trace, command.mark) == [command]


@pytest.mark.parametrize("status", ["approved", "APPROVED", 1, "1"])
def test_expected_status_in_any_form(status: Any) -> None:
    command = {"action": "reject", "ids": ["R"], "expectedStatus": status}
    assert MODERATION_COMMAND.validate_json(json.dumps(command)).expected_status is ReviewStatus.APPROVED


@pytest.mark.parametrize("status", ["Approve", "", len(ReviewStatus), 1.5, True, [], {}])
def test_invalid_expected_status_is_refused(status: Any) -> None:
    command = {"action": "reject", "ids": ["R"], "expectedStatus": status}
    with pytest.raises(ValidationError, match=r"Must be one of New \(0\), Approved \(1\), Rejected \(2\)"):
        MODERATION_COMMAND.validate_json(json.dumps(command))


@pytest.mark.parametrize("stores", [None, ["S"]])
def test_command_parked_by_earlier_version_is_read(stores: list[str] | None) -> None:
    parked = {
        "_id": "1-2-3000/R",
        "reviewId": "R",
        "action": "approve",
        "source": [1, 2, 3_000],
        "at": from_milliseconds(3_000),
        "moderator": None,
        "reason": None,
        "parkedAt": datetime.now(UTC),
    } | ({"stores": stores} if stores else {})
    position = RecordPosition(1, 2, 3_000)
    expected = Moderation("R", ModerationAction.APPROVE, position, from_milliseconds(3_000), stores=stores)
    assert moderation_from(parked) == expected


@pytest.mark.parametrize("action", ModerationAction)
@pytest.mark.parametrize("code", [*ReasonCode, "low-rating", ""])
def test_reason_codes_are_for_rejections_only(action: ModerationAction, code: str) -> None:
    command = json.dumps({"action": action, "ids": ["R"], "reasonCode": code})
    if action is ModerationAction.REJECT and code in set(ReasonCode):
        assert MODERATION_COMMAND.validate_json(command).reason_code == code
    else:
        with pytest.raises(ValidationError, match=r"Only a rejection|Input should be"):
            MODERATION_COMMAND.validate_json(command)


def test_blank_review_ids_of_earlier_versions_can_be_deleted() -> None:
    command_fields = {"action": "delete", "ids": [" "]}
    (command,) = MODERATION_COMMAND.validate_json(json.dumps(command_fields)).moderations(RecordPosition(0, 0, 0))
    assert moderation_from(parked_value(command)).review_id == " "
    assert moderation_from(parked_value(command._replace(command_id=" "))).command_id is None
    with pytest.raises(ValidationError, match="blank"):
        MODERATION_COMMAND.validate_python({**command_fields, "ids": [""]}, strict=False)


@pytest.mark.parametrize(
    ("more", "hashes"),
    [
        ({"textHashes": {"R": "A1" * 32}}, ["a1" * 32, None]),
        ({"textHashes": {}}, [None, None]),
        ({"textHashes": None}, [None, None]),
    ],
)
def test_text_hashes_may_name_any_of_the_reviews(more: dict[str, Any], hashes: list[str | None]) -> None:
    message = READ(json.dumps({"action": "approve", "ids": ["R", "r"], **more}).encode())
    assert [each.text_hash for each in message.moderations(RecordPosition(0, 0, 0))] == hashes


@pytest.mark.parametrize(
    ("texts", "code", "pointer"),
    [
        ({"other": "a1" * 32}, "other-review", ""),
        ({"R": "a1" * 31}, "string-pattern-mismatch", "/textHashes/R"),
        ({"R": 1}, "string-type", "/textHashes/R"),
        ([], "dict-type", "/textHashes"),
    ],
)
def test_invalid_text_hashes_are_refused(texts: Any, code: str, pointer: str) -> None:
    with pytest.raises(InvalidContentError) as caught:
        READ(json.dumps({"action": "approve", "ids": ["R", "r"], "textHashes": texts}).encode())
    assert [(error.code, error.pointer) for error in caught.value.errors] == [(code, pointer)]


def test_repeated_text_hash_is_refused() -> None:
    value = b'{"action": "approve", "ids": ["R"], "textHashes": {"R": "' + b"0" * 64 + b'", "R": "' + b"1" * 64 + b'"}}'
    with pytest.raises(InvalidContentError) as caught:
        READ(value)
    assert [(error.code, error.pointer) for error in caught.value.errors] == [("duplicate-field", "/textHashes/R")]
