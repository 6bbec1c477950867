from dataclasses import asdict
from itertools import product
from typing import Any

import pytest
from pydantic import BaseModel

from api.stores.routes import ShownReminder, ShownSettings, ShownStore, ShownStoreSettings
from api.web.responses import Row
from console import settings as console_settings
from console import stores
from domain.ratings import RatingMethod
from domain.returns_numbers import DEFAULT_NUMBER_TEMPLATE
from domain.reviews_refusals import Refusal
from domain.stores import (
    GeneralSettings,
    ReminderSettings,
    Store,
    StoreSettings,
    is_open_to_customers,
    rating_method,
    refusals,
    return_number_template,
    store_name,
)
from messaging.stores import GeneralSettingsFields, ReminderSettingsUpdate, StoreSettingsUpdate

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
def test_refusal_of_a_review(
    settings: StoreSettings | None, user: str | None, bought: bool, reviewed: bool, expected: Refusal | None
) -> None:
    store = Store("s", settings=settings) if settings else None
    found = refusals(store, user_id=user, has_purchased=bought, has_reviewed=reviewed)
    assert next(found, None) is expected


@pytest.mark.parametrize(
    ("settings", "update", "shown"),
    [
        (StoreSettings(), StoreSettingsUpdate(), ShownStoreSettings),
        (ReminderSettings(), ReminderSettingsUpdate(), ShownReminder),
        (GeneralSettings(), GeneralSettingsFields(), ShownSettings),
    ],
)
def test_every_setting_can_be_set_and_is_shown(settings: Any, update: BaseModel, shown: type[Row]) -> None:
    defaults, documented = asdict(settings), update.model_dump()
    assert defaults.keys() == documented.keys() == shown.model_fields.keys()
    # Null stands for the default.
    assert all(value in (None, defaults[name]) for name, value in documented.items())


def test_console_has_a_field_for_every_setting() -> None:
    store, general = ShownStore.of(Store("s")), ShownSettings.of(GeneralSettings())
    of_store = {*store, *(f"settings.{name}" for name in store["settings"])} - {"id", "settings"}
    # Rules have a page of their own.
    assert {each.name for each in stores._FIELDS} == of_store - {"settings.moderationRules"}
    of_all = {*general, *(f"reminder.{name}" for name in general["reminder"])} - {"reminder"}
    assert {each.name for each in console_settings._FIELDS} == of_all


@pytest.mark.parametrize("own", [None, "{date}-{sequence}"])
def test_own_number_template_overrides_the_general_one(own: str | None) -> None:
    general = GeneralSettings(return_number_template="R{0:yy}-{1}")
    store = Store("s", settings=StoreSettings(return_number_template=own))
    assert return_number_template(general, store) == (own or "R{0:yy}-{1}")
    assert return_number_template(general, None) == "R{0:yy}-{1}"
    assert return_number_template(GeneralSettings(), Store("s")) == DEFAULT_NUMBER_TEMPLATE


@pytest.mark.parametrize("general", RatingMethod)
@pytest.mark.parametrize("own", [None, *RatingMethod])
def test_own_rating_method_overrides_the_general_one(general: RatingMethod, own: RatingMethod | None) -> None:
    store = Store("s", settings=StoreSettings(rating_calculation_method=own))
    assert rating_method(GeneralSettings(general), store) is (own or general)
    assert rating_method(GeneralSettings(general), None) is general


@pytest.mark.parametrize(
    ("store_id", "name"), [("s", "Shop"), ("nameless", "nameless"), ("gone", "gone"), (None, None)]
)
def test_store_is_shown_by_name_or_id(store_id: str | None, name: str | None) -> None:
    assert store_name(store_id, {"s": Store("s", name="Shop"), "nameless": Store("nameless")}) == name


def test_each_reason_occurs_and_has_a_helpful_message() -> None:
    strict = Store("s", settings=StoreSettings(one_review_per_customer=True))
    found = {
        reason
        for store, user in ((strict, "u"), (strict, None), (None, "u"))
        for reason in refusals(store, user_id=user, has_purchased=False, has_reviewed=True)
    }
    of_tokens = {reason for reason in Refusal if reason.value.startswith("token-")}
    of_images = {reason for reason in Refusal if "image" in reason.value}
    assert found == set(Refusal) - {Refusal.ID_TAKEN, Refusal.INCOMPLETE} - of_tokens - of_images
    assert Refusal.REVIEWS_DISABLED.message.startswith("Reviews are disabled")
    others = found - {Refusal.UNKNOWN_STORE, Refusal.REVIEWS_DISABLED}
    assert all(reason.message.startswith("The store accepts ") for reason in others)
    assert Refusal.UNKNOWN_STORE.message.startswith("No store is registered")
    assert Refusal.ID_TAKEN.message.startswith("The id is taken")
    assert Refusal.INCOMPLETE.message.startswith("No review has this id")
    assert all(reason.message.startswith("The review token ") for reason in of_tokens)
    assert len({reason.message for reason in Refusal}) == len(Refusal)


@pytest.mark.parametrize("has_reviewed", [True, False])
def test_imports_need_only_registration_and_uniqueness(has_reviewed: bool) -> None:
    settings = StoreSettings(one_review_per_customer=True)
    duplicate = Refusal.DUPLICATE_REVIEW if has_reviewed else None
    cases = [(Store("s", settings=settings), "anna", duplicate), (Store("s", settings=settings), None, None)]
    for store, user_id, reason in [*cases, (None, "anna", Refusal.UNKNOWN_STORE)]:
        found = refusals(store, user_id=user_id, has_purchased=False, has_reviewed=has_reviewed, is_import=True)
        assert next(found, None) is reason


@pytest.mark.parametrize("switches", [*product((False, True), repeat=4)])
def test_store_open_to_customers_refuses_none_of_them(switches: tuple[bool, bool, bool, bool]) -> None:
    store = Store("s", settings=StoreSettings(*switches))
    found = refusals(store, user_id="u", has_purchased=False, has_reviewed=True)
    assert is_open_to_customers(store) is not any(found)
