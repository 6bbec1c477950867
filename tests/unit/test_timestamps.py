import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.timestamps import (
    EPOCH,
    a_millisecond_after,
    first_millisecond,
    from_milliseconds,
    milliseconds,
    moment_after,
    moment_in,
    timestamp,
)


@pytest.mark.parametrize(
    ("moment", "written"),
    [
        (datetime(2022, 10, 4, 3, 46, 43, 433_999, UTC), "2022-10-04T03:46:43.433Z"),
        (datetime(2022, 10, 4, tzinfo=UTC), "2022-10-04T00:00:00.000Z"),
        (datetime(2022, 10, 4, 5, 46, tzinfo=timezone(timedelta(hours=2))), "2022-10-04T03:46:00.000Z"),
    ],
)
def test_timestamps_in_the_format_of_the_api(moment: datetime, written: str) -> None:
    assert timestamp(moment) == written


@given(st.datetimes(timezones=st.just(UTC), max_value=datetime(9999, 1, 1)))
def test_first_millisecond_is_not_before_the_moment(moment: datetime) -> None:
    first = first_millisecond(moment)
    assert first.microsecond % 1000 == 0
    assert timedelta() <= first - moment < timedelta(milliseconds=1)


def test_milliseconds_near_the_maximum_time() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    assert first_millisecond(last) == last.replace(microsecond=999_000)
    assert first_millisecond(last.replace(microsecond=998_500)) == last.replace(microsecond=999_000)
    assert first_millisecond(EPOCH) == EPOCH
    before = last - timedelta(milliseconds=1)
    assert (a_millisecond_after(before), a_millisecond_after(last)) == (last, last)


@pytest.mark.parametrize(
    "text",
    [
        *("2022-10-04+02:00", "2022-10-04-05:00", "2022-10-04-0500", "20221004-05", "2022-W40-2-05", "2022-W40-05"),
        *("2022-10-0412:00", "2022-10-0411205", "2022-10-04X03:46", "now", ""),
    ],
)
def test_text_without_a_separator_between_date_and_time_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match="separated"):
        moment_in(text)


@pytest.mark.parametrize("text", ["2022-10-04", "20221004", "2022-W40-2", "2022W402"])
@pytest.mark.parametrize("time", ["", "T00", " 00:00", "t000000Z", "T02:00+02:00"])
def test_date_has_any_form_of_iso_8601(text: str, time: str) -> None:
    assert moment_in(text + time) == datetime(2022, 10, 4, tzinfo=UTC)


def test_milliseconds_count_from_1970() -> None:
    moment = from_milliseconds(1_664_855_203_433)
    assert moment == datetime(2022, 10, 4, 3, 46, 43, 433_000, UTC)
    assert moment.tzinfo is UTC


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        (datetime(1970, 1, 1, 9, tzinfo=timezone(timedelta(hours=9))), 0),
        (datetime(1970, 1, 1, 0, 0, 1, 1_999, tzinfo=UTC), 1_001),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), -1),
    ],
)
def test_milliseconds_of_a_moment(moment: datetime, number: int) -> None:
    assert milliseconds(moment) == number


@given(st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)))
def test_timestamp_round_trips_to_the_millisecond(moment: datetime) -> None:
    read = datetime.fromisoformat(timestamp(moment))
    assert timedelta() <= moment - read < timedelta(milliseconds=1)


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
def test_time_zone_of_the_machine_makes_no_difference() -> None:
    assert timestamp(datetime(2022, 10, 4, 3, tzinfo=UTC)) == "2022-10-04T03:00:00.000Z"
    elsewhere = timezone(timedelta(hours=2))
    assert timestamp(datetime(2022, 10, 4, 5, tzinfo=elsewhere)) == "2022-10-04T03:00:00.000Z"
    assert from_milliseconds(0) == datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2022-10-04T05:46:43+02:00", datetime(2022, 10, 4, 3, 46, 43, tzinfo=UTC)),
        ("2022-10-04T03:46:43", datetime(2022, 10, 4, 3, 46, 43, tzinfo=UTC)),
        ("2022-10-04", datetime(2022, 10, 4, tzinfo=UTC)),
    ],
)
@pytest.mark.usefixtures("in_tokyo")
def test_text_without_time_zone_is_read_as_utc(text: str, moment: datetime) -> None:
    assert moment_in(text) == moment
    assert moment_in(text).tzinfo is UTC


@pytest.mark.parametrize(("text", "error"), [("tomorrow", ValueError), ("0001-01-01T00:00+01:00", OverflowError)])
def test_other_texts_are_no_moments(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        moment_in(text)


def test_no_moment_is_after_the_year_9999() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    assert moment_after(last - timedelta(hours=2), timedelta(hours=1)) == last - timedelta(hours=1)
    for early in (timedelta(hours=1), timedelta(minutes=59), timedelta()):
        assert moment_after(last - early, timedelta(hours=1)) == last
