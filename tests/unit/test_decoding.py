import pytest

from messaging.decoding import decoded
from messaging.envelope import cloud_event_identity
from tests.support.records import Record


@pytest.mark.parametrize("time", [-(2**63), -62_135_596_800_001, -1, 253_402_300_800_000, 2**62, 2**63 - 1])
def test_a_time_that_can_not_be_has_a_code_of_its_own(time: int) -> None:
    good, (letter,) = decoded([Record(timestamp=time)], bytes.upper)
    assert (good, letter.error.code) == ([], "invalid-timestamp")


@pytest.mark.parametrize("time", [0, 1, 253_402_300_799_999])
def test_a_time_that_can_be(time: int) -> None:
    record = Record(timestamp=time)
    assert decoded([record], bytes.upper) == ([(record, b"{}")], [])


def test_what_identifies_an_event() -> None:
    assert cloud_event_identity([("ce_id", b"1"), ("ce_source", b"/shop")]) == "/shop\n1"
    assert cloud_event_identity([("ce_id", b"1"), ("ce_source", None)]) == "\n1"
    for nothing in ([], [("ce_id", None)], [("ce_id", b""), ("ce_source", b"/shop")]):
        assert cloud_event_identity(nothing) is None
    assert cloud_event_identity([("ce_id", b"\xff")]) != cloud_event_identity([("ce_id", b"\xfe")])
