import json

import pytest

from domain.timestamps import timestamp
from messaging.decoding import decode_records, refusal_of
from messaging.envelope import Envelope, cloud_event_identity, wrapped_at
from messaging.orders import order_event
from messaging.reading_errors import InvalidContentError
from messaging.reviews import READ_ONE, READ_SEVERAL
from tests.support.records import Record


@pytest.mark.parametrize("time", [-(2**63), -62_135_596_800_001, -1, 253_402_300_800_000, 2**62, 2**63 - 1])
def test_invalid_timestamp_has_its_own_code(time: int) -> None:
    good, (letter,) = decode_records([Record(timestamp=time)], bytes.upper)
    assert (good, letter.error.code) == ([], "invalid-timestamp")


@pytest.mark.parametrize("time", [0, 1, 253_402_300_799_999])
def test_valid_timestamps_are_accepted(time: int) -> None:
    record = Record(timestamp=time)
    assert decode_records([record], bytes.upper) == ([(record, b"{}")], [])


def test_cloud_event_identity() -> None:
    assert cloud_event_identity([("ce_id", b"1"), ("ce_source", b"/shop")]) == "/shop\n1"
    assert cloud_event_identity([("ce_id", b"1"), ("ce_source", None)]) == "\n1"
    for nothing in ([], [("ce_id", None)], [("ce_id", b""), ("ce_source", b"/shop")]):
        assert cloud_event_identity(nothing) is None
    assert cloud_event_identity([("ce_id", b"\xff")]) != cloud_event_identity([("ce_id", b"\xfe")])


@pytest.mark.parametrize("nothing", [None, b"", b"\xff", b"yesterday", b"0001-01-01T00:00:00+23:00"])
def test_time_of_wrapping(nothing: bytes | None) -> None:
    (time,) = [header for header in Envelope("/shop").wrap("t", "k", "kind", {}).headers if header[0] == "ce_time"]
    found = wrapped_at([("ce_id", b"1"), time])
    assert found is not None
    assert (time[1], wrapped_at([("ce_time", nothing)])) == (timestamp(found).encode(), None)


def test_structured_mode_is_named_in_the_error() -> None:
    event = (
        b'{"specversion": "1.0", "id": "1", "source": "/shop", "type": "order", "data": {"id": "o-1", "status": "New"}}'
    )
    for kind in (b"application/cloudevents+json", b"Application/CloudEvents-batch+JSON; charset=utf-8", None):
        _, (letter,) = decode_records([Record(value=event, headers=[("content-type", kind)])], order_event)
        assert (letter.error.code, "binary mode" in str(letter.error)) == ("invalid-message", True)
    _, (plain,) = decode_records([Record(value=b'{"id": "o-1"}', headers=[("content-type", None)])], order_event)
    assert str(plain.error) == "/status: Field required"


def test_invalid_json_is_the_only_error() -> None:
    _, (letter,) = decode_records([Record(value=b"nonsense")], order_event)
    assert str(letter.error).startswith("Invalid JSON: ")


@pytest.mark.parametrize(
    ("value", "code", "words"), [(None, "empty", "a tombstone deletes nothing"), (b"", "invalid-json", "is empty")]
)
def test_no_value_and_an_empty_one_are_told_apart(value: bytes | None, code: str, words: str) -> None:
    refused = refusal_of(value, order_event)
    assert refused is not None
    assert (refused.code, words in str(refused)) == (code, True)


def test_dead_letter_error_does_not_reference_its_batch() -> None:
    _, (letter,) = decode_records([Record(timestamp=-1)], bytes)
    assert letter.error.__traceback__ is None
    assert letter.error.__context__ is None


@pytest.mark.parametrize("parts", [50_000, 50_001])
def test_values_with_too_many_parts_are_refused(parts: int) -> None:
    review = b'{"EntityType": "Product", "EntityId": "1", "review": "Good", "rating": 4, "more": [%s]}'
    value = review % b",".join([b"[]"] * (parts - 2))
    if parts > 50_000:
        with pytest.raises(InvalidContentError) as refused:
            READ_ONE.read(value)
        assert refused.value.errors[0].code == "too-many-parts"
    else:
        assert READ_ONE.read(value).ignored == ("more",)


@pytest.mark.parametrize("are_items", [True, False])
@pytest.mark.parametrize("commas", [100_000, 100_001])
def test_values_with_too_many_fields_or_items_are_refused(commas: int, are_items: bool) -> None:
    review = {"EntityType": "Product", "EntityId": "1", "review": "Good", "rating": 4, "nick, name": "A, B"}
    more = range(commas + 1 - len(review))
    value = json.dumps({**review, "more": [*more] if are_items else dict.fromkeys(more)}).encode()
    if commas > 100_000:
        with pytest.raises(InvalidContentError) as refused:
            READ_ONE.read(value)
        assert refused.value.errors[0].code == "too-many-parts"
    else:
        assert READ_ONE.read(value).ignored == ("nick, name", "more")


def test_brackets_and_commas_in_texts_are_not_counted() -> None:
    reviews = [{"EntityType": "Product", "EntityId": "1", "review": '[{"' * 2_500, "rating": 4}] * 20
    reviews += [{**reviews[0], "review": "," * 7_500}] * 20
    assert len(READ_SEVERAL.read(json.dumps(reviews).encode()).content) == 40


@pytest.mark.parametrize("texts", [b'"', b'\\"' * 20_000])
def test_brackets_in_an_unterminated_text_are_not_counted(texts: bytes) -> None:
    """The text is scanned once; a rescan from each quote would take minutes for a body of 200 KB."""
    with pytest.raises(InvalidContentError) as refused:
        READ_ONE.read(b'["' + b"[" * 50_001 + texts[:-1] + b" " * 50_000)
    assert refused.value.errors[0].code == "json-invalid"
