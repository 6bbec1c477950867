from datetime import UTC, datetime

import pytest

from messaging.cron import InvalidCronError, check_cron, in_words, next_time

SATURDAY = datetime(2026, 11, 21, 8, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("*/15 * * * *", "2026-11-21T08:15"),
        ("0 9 * * *", "2026-11-21T09:00"),
        ("0 9 * * 0", "2026-11-22T09:00"),
        ("0 9 * * 7", "2026-11-22T09:00"),
        ("0 9 * * 1", "2026-11-23T09:00"),
        ("0 9 * * MON", "2026-11-23T09:00"),
        ("0 9 * * 1-5", "2026-11-23T09:00"),
        ("0 9 * * 2-6/3", "2026-11-24T09:00"),
        ("0 9 * * sun-tue", "2026-11-22T09:00"),
        ("0 7 * * fri-sun", "2026-11-22T07:00"),
        ("0 7 * * 4-0", "2026-11-22T07:00"),
        ("0 7 * * mon-SUN", "2026-11-22T07:00"),
        ("0 7 * * 0-sun", "2026-11-22T07:00"),
        ("0 7 * * sun-sun", "2026-11-22T07:00"),
        ("1 8 * * *", "2026-11-22T08:01"),
        ("0 9 * * */2", "2026-11-21T09:00"),
        ("0 9 1 * 1", "2026-11-23T09:00"),
        ("0 9 22 * fri", "2026-11-22T09:00"),
        ("0 9 29 2 *", "2028-02-29T09:00"),
        ("0 0 31 2 1", "2027-02-01T00:00"),
    ],
)
def test_next_time_follows_crontab(expression: str, expected: str) -> None:
    assert next_time(expression, SATURDAY) == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "expression",
    [
        *("", "every day", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *"),
        *("* * * * 8", "* * * * x", "* * * * 5-1", "* * * * */0", "* * * * ,", "*/0 * * * *", "x * * * *"),
        *("0 0 31 2 *", "0 0 31 4,6 *", "* * * * \N{ARABIC-INDIC DIGIT ONE}"),
    ],
)
def test_invalid_expressions_are_refused(expression: str) -> None:
    with pytest.raises(InvalidCronError):
        check_cron(expression)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 9 1 * 1", "At 09:00 on the first day of month or on Monday"),
        (
            "0,30 9 1,15 6 sat,sun",
            "At 09:00 and 09:30 on the first and the 15th day of month or on Saturday and Sunday in June",
        ),
        ("0 9 */2 * 1", "At 09:00 on every second day of month if it's on Monday"),
        ("0 9 1 * *", "At 09:00 on the first day of every month"),
    ],
)
def test_words_say_that_either_day_fires(expression: str, words: str) -> None:
    assert in_words(expression) == words
