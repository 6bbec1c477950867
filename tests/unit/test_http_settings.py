"""Bounds of the settings of the API."""

import pytest
from pydantic import ValidationError

from plaudit.http_settings import HttpSettings
from storage.database import SOON_S


@pytest.mark.parametrize("seconds", [0, 0.0005, SOON_S / 2])
def test_queries_have_at_least_the_time_of_short_look_ups(seconds: float) -> None:
    """Short look-ups have their own limit, which mustn't be above that for all queries. The driver counts in whole
    milliseconds, and takes 0 for no limit."""
    with pytest.raises(ValidationError, match="query_timeout"):
        HttpSettings(query_timeout=seconds)
    assert HttpSettings(query_timeout=SOON_S).query_timeout == SOON_S
