"""Facts about a review."""

import pytest

from domain.reviews_facts import Facts, Source


@pytest.mark.parametrize("source", Source)
@pytest.mark.parametrize("is_given", [True, False])
def test_no_shop_vouches_for_the_language_that_a_page_names(source: Source, is_given: bool) -> None:
    facts = Facts(source=source, is_language_given=is_given)
    assert facts.is_language_of_stranger is (is_given and source in {Source.WIDGET, Source.REMINDER})
