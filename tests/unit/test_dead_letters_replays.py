"""Messages of replayed dead letters."""

import json
from dataclasses import replace
from typing import Any

import pytest

from messaging.dead_letters import dead_letter_message
from messaging.dead_letters_codes import DeadLetterCode
from messaging.dead_letters_replays import replayed_message
from messaging.decoding import LATEST_MS, DeadLetter, InvalidMessageError, first_published
from messaging.envelope import cloud_event_identity
from messaging.readers import READERS
from messaging.topics import CONSUMED
from tests.support.records import Record


def letter(
    topic: str, *headers: tuple[str, bytes | None], code: DeadLetterCode = DeadLetterCode.PROCESSING_FAILED
) -> Record:
    """A record that has become a dead letter."""
    record = Record(17, headers, topic, 3, 1_000, b"key")
    message = dead_letter_message(DeadLetter(record, InvalidMessageError(code, "reason")))
    return replace(record, topic=message.topic, headers=message.headers)


def test_replay_keeps_the_record_and_adds_its_origin() -> None:
    headers = [("trace", b"1"), ("trace", b"2"), ("x-other", b"3")]
    replayed = replayed_message(letter("p.review-submissions", *headers))
    assert (replayed.topic, replayed.key, replayed.value) == ("p.review-submissions", b"key", b"{}")
    place = b"p.review-submissions.dlq/3-17-1000"
    assert replayed.headers == [*headers, ("x-replayed-from", place), ("x-first-published", b"1000")]
    twice = replayed_message(letter("p.review-submissions", *replayed.headers))
    assert twice.headers == replayed.headers


def test_replay_keeps_the_first_timestamp() -> None:
    first = replace(letter("p.order-events"), timestamp=9_000)
    replayed = Record(18, replayed_message(first).headers, "p.order-events", 3, 10_000)
    again = dead_letter_message(DeadLetter(replayed, InvalidMessageError(DeadLetterCode.PROCESSING_FAILED, "reason")))
    assert [dict(each.headers)["x-first-published"] for each in (replayed, again)] == [b"1000"] * 2
    assert first_published(replayed) == 1_000


def test_replay_of_a_record_from_the_future_is_as_old_as_its_letter() -> None:
    """So that it overwrites nothing that is newer."""
    record = Record(17, (), "p.return-commands", 3, LATEST_MS, b"key")
    message = dead_letter_message(DeadLetter(record, InvalidMessageError(DeadLetterCode.PROCESSING_FAILED, "reason")))
    letters = [replace(record, topic=message.topic, headers=message.headers, timestamp=at) for at in (9_000, 9_020)]
    replays = [Record(18, replayed_message(each).headers, "p.return-commands", 3, 10_000) for each in letters]
    assert [first_published(each) for each in replays] == [9_000, 9_020]
    # A redelivered record can have two letters: one of their replays is a repeat.
    assert len({cloud_event_identity(each.headers) for each in replays}) == 1


@pytest.mark.parametrize("header", [None, b"", b"x", b"-1", b"9999", b"9" * 5_000])
def test_invalid_first_timestamps_are_ignored(header: bytes | None) -> None:
    assert first_published(Record(timestamp=1_000, headers=[("x-first-published", header)])) == 1_000


def test_edited_message_has_a_stable_identity_of_its_own() -> None:
    source = letter("p.review-submissions", ("ce_id", b"1"), ("ce_source", b"/shop"))
    identities = [
        cloud_event_identity(replayed_message(source, value=value, earlier=earlier).headers)
        for value, earlier in ((None, 0), (None, 1), (b"a", 0), (b"a", 1), (b"b", 0))
    ]
    assert identities[0] == identities[1] == "/shop\n1"
    assert identities[2] == identities[3]
    assert len({*identities}) == 3


def test_review_without_identity_gets_none() -> None:
    source = letter("p.review-submissions")
    assert cloud_event_identity(replayed_message(source, value=b"a").headers) is None


def test_return_without_identity_gets_one_per_replay() -> None:
    source = letter("p.return-commands")
    first, same, later = (cloud_event_identity(replayed_message(source, earlier=n).headers) for n in (0, 0, 1))
    assert first is not None
    assert first == same != later


def letters_of_one_record(topic: str) -> tuple[Record, Record]:
    """Two letters of one record, which was redelivered, or whose letter was published twice."""
    first = replace(letter(topic), value=b'{"action": "approve", "ids": ["1"]}', timestamp=2_000)
    return first, replace(first, offset=18, timestamp=3_000)


def identity_of(source: Record) -> str | None:
    """The identity of a replay's message: from its headers, or else its command id."""
    message = replayed_message(source)
    id_in_value: str | None = json.loads(message.value or b"").get("commandId")
    return cloud_event_identity(message.headers) or id_in_value


@pytest.mark.parametrize("value", [None, b'{"action": "reject", "ids": ["1"]}'])
@pytest.mark.parametrize("topic", ["return-commands", "moderation-commands"])
def test_two_letters_of_one_record_are_the_same_message(topic: str, value: bytes | None) -> None:
    letters = letters_of_one_record(f"p.{topic}")
    first, second = (replayed_message(each, value=value) for each in letters)
    assert first.value == second.value
    assert cloud_event_identity(first.headers) == cloud_event_identity(second.headers)
    again = replayed_message(letters[0], value=value, earlier=1)
    assert (again.value, cloud_event_identity(again.headers)) != (first.value, cloud_event_identity(first.headers))


@pytest.mark.parametrize("topic", ["return-commands", "moderation-commands"])
def test_two_letters_of_a_record_without_timestamp_are_the_same_message(topic: str) -> None:
    record = replace(letters_of_one_record(f"p.{topic}")[0], topic=f"p.{topic}", headers=(), timestamp=-1)
    reason = InvalidMessageError(DeadLetterCode.PROCESSING_FAILED, "reason")
    message = dead_letter_message(DeadLetter(record, reason))
    assert "x-first-published" not in dict(message.headers)
    first = replace(record, topic=message.topic, headers=message.headers, timestamp=2_000)
    assert identity_of(first) == identity_of(replace(first, offset=18, timestamp=3_000))


@pytest.mark.parametrize("other", [{"key": b"other"}, {"value": b'{"action": "approve", "ids": ["2"]}'}])
@pytest.mark.parametrize("topic", ["return-commands", "moderation-commands"])
def test_parts_of_one_record_are_different_messages(topic: str, other: dict[str, Any]) -> None:
    first, second = letters_of_one_record(f"p.{topic}")
    assert identity_of(first) != identity_of(replace(second, **other))


def test_letter_without_source_is_identified_by_its_place() -> None:
    first, second = (replace(each, headers=()) for each in letters_of_one_record("p.return-commands"))
    assert identity_of(first) == "/plaudit/dlq\np.return-commands.dlq/3-17-2000/0"
    assert identity_of(first) != identity_of(second)


def command_id(source: Record, **options: Any) -> str | None:
    """The id of the command that a replay publishes; asserts that the rest of its value is unchanged."""
    value = json.loads(replayed_message(source, **options).value or b"")
    id: str | None = value.pop("commandId", None)
    assert {**json.loads(source.value or b""), "commandId": None} == {**value, "commandId": None}
    return id


@pytest.mark.parametrize(
    "topic", ["store-updates", "moderation-commands", "review-feedback", "review-changes", "image-commands"]
)
def test_command_without_id_gets_one_per_replay(topic: str) -> None:
    source = replace(letter(f"p.{topic}"), value=b' {"action": "approve", "reviewId": "1", "n": 1.10}')
    first, same, later = (command_id(source, earlier=n) for n in (0, 0, 1))
    assert first is not None
    assert first == same != later
    assert (replayed_message(source).value or b"").endswith(b'"action": "approve", "reviewId": "1", "n": 1.10}')
    mended = [replayed_message(source, value=value).value for value in (b'{"ids": ["1"]}', b'{"ids": ["2"]}')]
    assert len({json.loads(value or b"")["commandId"] for value in mended} - {first}) == 2


@pytest.mark.parametrize("none", [None, ""])
@pytest.mark.parametrize("name", ["commandId", "CommandID"])
def test_null_or_empty_command_id_counts_as_missing(name: str, none: str | None) -> None:
    source = replace(letter("p.moderation-commands"), value=json.dumps({"action": "approve", name: none}).encode())
    first, same, later = (json.loads(replayed_message(source, earlier=n).value or b"") for n in (0, 0, 1))
    assert first == same == {"action": "approve", name: first[name]}
    assert len({none, first[name], later[name]}) == 3
    report = json.dumps({"action": "report", name: none}).encode()
    assert replayed_message(replace(source, value=report)).value == report


@pytest.mark.parametrize(
    "value",
    [
        *(b"no JSON", b"[]", b"{}", b"7"),
        *(b'{"kind": "recount"}', b'{"action": "report"}', b'{"Action": "Report"}'),
    ],
)
def test_values_without_need_for_an_id_are_unchanged(value: bytes) -> None:
    assert replayed_message(replace(letter("p.review-feedback"), value=value)).value == value


@pytest.mark.parametrize("name", ["commandId", "CommandID"])
def test_command_keeps_its_id_unless_it_was_refused(name: str) -> None:
    value = json.dumps({"action": "approve", name: "mine"}).encode()
    assert replayed_message(replace(letter("p.review-changes"), value=value)).value == value
    settled = replace(letter("p.review-changes", code=DeadLetterCode.REVIEW_NOT_FOUND), value=value)
    first, same, later = (json.loads(replayed_message(settled, earlier=n).value or b"")[name] for n in (0, 0, 1))
    assert first == same != later != "mine" != first


def test_every_consumed_topic_has_a_reader() -> None:
    assert set(READERS) == set(CONSUMED)
