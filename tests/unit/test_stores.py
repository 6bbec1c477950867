from datetime import date

import pytest

from domain.stores import (
    DEFAULT_RETURN_NUMBER_TEMPLATE,
    InvalidTemplateError,
    Refusal,
    Store,
    StoreSettings,
    refusal,
    return_number,
    return_series,
)


@pytest.mark.parametrize(
    ("settings", "user", "bought", "expected"),
    [
        (StoreSettings(), "u", True, Refusal.REVIEWS_DISABLED),
        (StoreSettings(reviews_enabled=True), None, True, Refusal.ANONYMOUS_NOT_ALLOWED),
        (StoreSettings(reviews_enabled=True), "u", False, Refusal.PURCHASE_REQUIRED),
        (StoreSettings(reviews_enabled=True), "u", True, None),
        (StoreSettings(reviews_enabled=True, purchase_required=False), "u", False, None),
        (StoreSettings(True, True, False), None, False, None),
        (StoreSettings(True, True, True), None, False, Refusal.PURCHASE_REQUIRED),
    ],
)
def test_who_may_review(settings: StoreSettings, user: str | None, bought: bool, expected: Refusal | None) -> None:
    assert refusal(Store("s", settings=settings), user_id=user, has_purchased=lambda: bought) is expected


def test_default_return_number() -> None:
    assert return_number(DEFAULT_RETURN_NUMBER_TEMPLATE, date(2022, 3, 14), 1) == "RET220314-00001"


@pytest.mark.parametrize(
    "template",
    ["RET", "{date:%y%m%d}", "{sequence:05d}", "{0}{date}{sequence}", "{date.__class__}{sequence}", "{",
     "{date:%y}{sequence:0999999999d}", "{date:%999999y}{sequence}"],
)  # fmt: skip
def test_unusable_templates_are_refused(template: str) -> None:
    with pytest.raises(InvalidTemplateError):
        return_number(template, date(2022, 3, 14), 1)


def test_numbers_of_any_width_are_counted_together() -> None:
    day = date(2022, 3, 14)
    narrow, wide = "R{date:%y%m%d}-{sequence:02d}", "R{date:%y%m%d}-{sequence:05d}"
    assert return_series(narrow, day) == return_series(wide, day) == "R220314-#"
    assert return_series(wide, day) != return_series(wide, date(2022, 3, 15))
