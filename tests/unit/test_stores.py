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
    return_number_template,
    return_series,
    store_name,
)

ONE_EACH = StoreSettings(True, True, False, one_review_per_customer=True)


@pytest.mark.parametrize(
    ("settings", "user", "bought", "reviewed", "expected"),
    [
        (None, "u", True, False, Refusal.UNKNOWN_STORE),
        (StoreSettings(), "u", True, True, Refusal.REVIEWS_DISABLED),
        (StoreSettings(reviews_enabled=True), None, True, True, Refusal.ANONYMOUS_NOT_ALLOWED),
        (StoreSettings(reviews_enabled=True), "u", False, True, Refusal.PURCHASE_REQUIRED),
        (StoreSettings(reviews_enabled=True), "u", True, True, None),
        (StoreSettings(reviews_enabled=True, purchase_required=False), "u", False, True, None),
        (StoreSettings(True, True, False), None, False, True, None),
        (StoreSettings(True, True, True), None, False, True, Refusal.PURCHASE_REQUIRED),
        (ONE_EACH, "u", False, True, Refusal.DUPLICATE_REVIEW),
        (ONE_EACH, "u", False, False, None),
        (ONE_EACH, None, False, True, None),
    ],
)
def test_who_may_review(
    settings: StoreSettings | None, user: str | None, bought: bool, reviewed: bool, expected: Refusal | None
) -> None:
    store = Store("s", settings=settings) if settings else None
    told = refusal(store, user_id=user, has_purchased=lambda: bought, has_reviewed=lambda: reviewed)
    assert told is expected


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
    ("template", "number"),
    [("RET{0:yyMMdd}-{1:D5}", "RET220314-00007"), ("{0:yyyy-MM-dd}/{1}", "2022-03-14/7"),
     ("{1:d3}_{0:dd.MM}", "007_14.03"),
     ("{0:yy MM}-{1:0000}", "22 03-0007"), ("{0:yyMMdd}-{1:D}", "220314-7"), ("{0:yyMMdd}-{sequence:02d}", "220314-07"),
     ("{{{0:yy}}}-{1:D10}", "{22}-0000000007")],
)  # fmt: skip
def test_templates_of_net(template: str, number: str) -> None:
    check_return_number_template(template)
    assert return_number(template, date(2022, 3, 14), 7) == number


@pytest.mark.parametrize(
    "template",
    ["{0:yyMMdd}{1:D5}", "{0}-{1}", "{0:}-{1}", "{0:d}-{1}", "{0:yyyMMdd}-{1}", "{0:yyM}-{1}", "{0:MMMdd}-{1}",
     "{0:yyMMddHH}-{1}", "{0:yyMMdd}-{1:N0}", "{0:yyMMdd}-{1,5:D5}", "{0:yyMMdd}-{1:X4}", "{0:yyMMdd}-{1:D100}",
     "{0:yyMMdd}-{2}", "{1:yyMMdd}-{0:D5}", "{0:yyMMdd}", "{1:D5}", "{0:%y}-{1}", "{0:yyMMdd}-{1:05d}",
     "{0:yy'x'}-{1}", "{0:'yyMMdd'}-{1}", "{0:yyX}-{1}", "{:yy}-{:D5}"],
)  # fmt: skip
def test_templates_of_net_without_sense(template: str) -> None:
    with pytest.raises(InvalidTemplateError):
        check_return_number_template(template)


def test_both_languages_count_together() -> None:
    day = date(2022, 3, 14)
    assert return_series("RET{0:yyMMdd}-{1:D3}", day) == return_series(DEFAULT_RETURN_NUMBER_TEMPLATE, day)


@pytest.mark.parametrize("own", [None, "{date}-{sequence}"])
def test_a_stores_own_template_goes_before_the_general_one(own: str | None) -> None:
    general = GeneralSettings(return_number_template="R{0:yy}-{1}")
    store = Store("s", settings=StoreSettings(return_number_template=own))
    assert return_number_template(general, store) == (own or "R{0:yy}-{1}")
    assert return_number_template(general, None) == "R{0:yy}-{1}"
    assert return_number_template(GeneralSettings(), Store("s")) == DEFAULT_RETURN_NUMBER_TEMPLATE


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
    strict = Store("s", settings=StoreSettings(one_review_per_customer=True))
    told = {
        reason
        for store, user in ((strict, "u"), (strict, None), (None, "u"))
        for reason in refusals(store, user_id=user, has_purchased=lambda: False, has_reviewed=lambda: True)
    }
    of_tokens = {reason for reason in Refusal if reason.value.startswith("token-")}
    of_images = {reason for reason in Refusal if "image" in reason.value}
    assert told == set(Refusal) - {Refusal.ID_TAKEN} - of_tokens - of_images
    assert Refusal.REVIEWS_DISABLED.message.startswith("No reviews are taken")
    others = told - {Refusal.UNKNOWN_STORE, Refusal.REVIEWS_DISABLED}
    assert all(reason.message.startswith("The store takes ") for reason in others)
    assert Refusal.UNKNOWN_STORE.message.startswith("No store is registered")
    assert Refusal.ID_TAKEN.message.startswith("The id is taken")
    assert all(reason.message.startswith("The review token ") for reason in of_tokens)
    assert len({reason.message for reason in Refusal}) == len(Refusal)


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
        ("{0:d}-{1}", r", not \{0:d\}$"),
        ("{0:yyX}-{1}", r", not \{0:yyX\}$"),
        ("{0:yy}-{1:N0}", r", not \{1:N0\}$"),
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


@pytest.mark.parametrize("has_reviewed", [True, False])
def test_an_import_was_taken_under_other_rules(has_reviewed: bool) -> None:
    settings = StoreSettings(one_review_per_customer=True)
    duplicate = Refusal.DUPLICATE_REVIEW if has_reviewed else None
    cases = [(Store("s", settings=settings), "anna", duplicate), (Store("s", settings=settings), None, None)]
    for store, user_id, reason in [*cases, (None, "anna", Refusal.UNKNOWN_STORE)]:
        found = refusal(
            store,
            user_id=user_id,
            has_purchased=lambda: False,
            has_reviewed=lambda: has_reviewed,
            is_import=True,
        )
        assert found is reason
