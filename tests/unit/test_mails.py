from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.mails import RetryPlan

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
PLAN = RetryPlan(first_pause=30 * SECOND, longest_pause=HOUR, give_up_after=24 * HOUR)


def pause(attempts: int, jitter: float = 0.0, plan: RetryPlan = PLAN) -> timedelta:
    again = plan.next_attempt(NOON, first=NOON, attempts=attempts, jitter=jitter)
    assert again is not None
    return again - NOON


def test_default_plan() -> None:
    assert RetryPlan() == PLAN


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(1, 30), (2, 60), (3, 120), (7, 1_920), (8, 3_600), (22, 3_600), (10_000, 3_600)]
)
def test_pauses_double_up_to_the_longest(attempts: int, seconds: int) -> None:
    assert pause(attempts) == seconds * SECOND


@pytest.mark.parametrize(("attempts", "doublings"), [(20, 19), (21, 20), (22, 20), (10_000, 20)])
def test_doubling_is_bounded(attempts: int, doublings: int) -> None:
    endless = RetryPlan(timedelta(microseconds=1), timedelta(days=365), timedelta(days=365))
    assert pause(attempts, plan=endless) == timedelta(microseconds=2**doublings)


@given(st.integers(1, 30), st.floats(0, 1))
def test_jitter_shortens_pause_by_up_to_half(attempts: int, jitter: float) -> None:
    whole = pause(attempts)
    assert abs(pause(attempts, jitter) - whole * (1 - jitter / 2)) <= timedelta(microseconds=1)
    assert pause(attempts, 1.0) == whole / 2


@pytest.mark.parametrize(("age", "is_over"), [(24 * HOUR - SECOND, False), (24 * HOUR, True), (25 * HOUR, True)])
def test_retries_end_after_give_up_time(age: timedelta, is_over: bool) -> None:
    assert (PLAN.next_attempt(NOON, first=NOON - age, attempts=1, jitter=0.0) is None) is is_over
