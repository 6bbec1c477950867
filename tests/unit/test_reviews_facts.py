"""Facts about a review."""

import pytest

from domain.reviews_facts import Facts, Source


@pytest.mark.parametrize("source", Source)
@pytest.mark.parametrize("is_given", [True, False])
def test_language_given_by_widget_or_reminder_is_a_strangers(source: Source, is_given: bool) -> None:
    facts = Facts(source=source, is_language_given=is_given)
    assert facts.is_language_of_stranger is (is_given and source in {Source.WIDGET, Source.REMINDER})
