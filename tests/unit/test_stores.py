from datetime import date

import pytest

from domain.ratings import RatingMethod
from domain.stores import (
    DEFAULT_RETURN_NUMBER_TEMPLATE,
    GeneralSettings,
    InvalidTemplateError,
    Refusal,
    Store,
    StoreSettings,
    check_return_number_template,
    rating_method,
    refusal,
    refusals,
    return_number,
    return_series,
    store_name,
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


@pytest.mark.parametrize(
    "template",
    [DEFAULT_RETURN_NUMBER_TEMPLATE, "{date:%y%m%d-}{sequence}", "{sequence}/{date}", "7{date:%Y}9-{sequence:03d}1",
     "{date:%d}{date:%m}N{sequence}"],
)  # fmt: skip
def test_a_date_and_a_sequence_that_are_apart(template: str) -> None:
    check_return_number_template(template)


@pytest.mark.parametrize(
    "template",
    ["{date}{sequence}", "{sequence}{date}", "{date}0{sequence}", "{date:-%y}{sequence}", "{date}-{sequence}{sequence}",
     "{date}-{sequence}12{date}", "{date:-}{sequence}", "{date:. }-{sequence}", "RET", "{date}", "{sequence}"],
)  # fmt: skip
def test_a_date_and_a_sequence_that_run_together_or_are_missing(template: str) -> None:
    with pytest.raises(InvalidTemplateError):
        check_return_number_template(template)


def test_numbers_of_any_width_are_counted_together() -> None:
    day = date(2022, 3, 14)
    narrow, wide = "R{date:%y%m%d}-{sequence:02d}", "R{date:%y%m%d}-{sequence:05d}"
    assert return_series(narrow, day) == return_series(wide, day) == "R220314-#"
    assert return_series(wide, day) != return_series(wide, date(2022, 3, 15))


@pytest.mark.parametrize("general", RatingMethod)
@pytest.mark.parametrize("own", [None, *RatingMethod])
def test_a_stores_own_method_goes_before_the_general_one(general: RatingMethod, own: RatingMethod | None) -> None:
    store = Store("s", settings=StoreSettings(rating_calculation_method=own))
    assert rating_method(GeneralSettings(general), store) is (own or general)
    assert rating_method(GeneralSettings(general), None) is general


@pytest.mark.parametrize(
    ("store_id", "name"), [("s", "Shop"), ("nameless", "nameless"), ("gone", "gone"), (None, None)]
)
def test_a_store_is_shown_by_its_name_or_its_id(store_id: str | None, name: str | None) -> None:
    assert store_name(store_id, {"s": Store("s", name="Shop"), "nameless": Store("nameless")}) == name


def test_every_reason_is_told_and_says_what_to_do() -> None:
    told = list(refusals(Store("s"), user_id=None, has_purchased=lambda: False))
    assert told == [Refusal.REVIEWS_DISABLED, Refusal.ANONYMOUS_NOT_ALLOWED, Refusal.PURCHASE_REQUIRED]
    assert all(reason.message.startswith("The store takes ") for reason in told[1:])
    assert Refusal.ID_TAKEN.message.startswith("The id is taken")
    assert all(r.message.startswith("The review token ") for r in Refusal if r.value.startswith("token-"))
    assert len({reason.message for reason in Refusal}) == len(Refusal)
    assert refusal(Store("s"), user_id=None, has_purchased=lambda: False) is Refusal.REVIEWS_DISABLED


@pytest.mark.parametrize(
    ("template", "number", "series"),
    [("{date}-{sequence}", "220314-7", "220314-#"), ("{date:%d/%Y} {sequence:03d}", "14/2022 007", "14/2022 #")],
    ids=["without a format", "with a format"],
)
def test_parts_of_a_return_number(template: str, number: str, series: str) -> None:
    assert return_number(template, date(2022, 3, 14), 7) == number
    assert return_series(template, date(2022, 3, 14)) == series


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{date}-{sequence}{nonsense:x}", r"\{nonsense:x\}$"),
        ("{date}", r"^The template needs both \{date:%y%m%d\} and \{sequence:05d\}$"),
        ("{", "can't be read"),
        ("{date:-}{sequence}", r"^The template shows no date: use \{date:%y%m%d\}$"),
        (
            "{date}{sequence}",
            "^Put something that is not a digit between the date and the sequence, "
            r"as in RET\{date:%y%m%d\}-\{sequence:05d\}$",
        ),
    ],
)
def test_the_message_says_what_is_wrong_with_a_template(template: str, message: str) -> None:
    with pytest.raises(InvalidTemplateError, match=message):
        check_return_number_template(template)
