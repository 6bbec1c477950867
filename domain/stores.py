"""Stores, their settings, and the rules by which they accept reviews."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from domain.moderation_rules import ModerationRule
from domain.ratings import RatingMethod
from domain.returns_numbers import DEFAULT_NUMBER_TEMPLATE
from domain.returns_statuses import DEFAULT_STATUSES
from domain.reviews_refusals import Refusal

GENERAL: Final = "general"
"""The id of the general settings, in place of a store's id; the key of messages that concern all stores."""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The settings of one store; the defaults are those of the specification."""

    reviews_enabled: bool = False
    anonymous_reviews_allowed: bool = False
    purchase_required: bool = True
    one_review_per_customer: bool = False
    edits_keep_status: bool = False
    rating_calculation_method: RatingMethod | None = None
    return_number_template: str | None = None
    review_url: str | None = None
    moderation_rules: tuple[ModerationRule, ...] = ()
    storefront_origins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Store:
    """A shop with reviews of its own."""

    id: str
    name: str | None = None
    email: str | None = None
    languages: tuple[str, ...] = ()
    settings: StoreSettings = field(default_factory=StoreSettings)


@dataclass(frozen=True, slots=True)
class ReminderSettings:
    """The settings of review reminders."""

    enabled: bool = False
    cron: str = "*/15 * * * *"
    days_in_status: int = 10
    order_status: str = "Complete"
    max_emails_per_customer: int = 2
    max_age_days: int = 30
    limit_period_days: int | None = None


RuleFields = Mapping[str, str | int | float | Sequence[str]]
Setting = str | int | bool | Sequence[str] | Sequence[RuleFields] | None
Changes = Mapping[str, Setting | Mapping[str, Setting]]
"""New values of a store or of the general settings by their names in the API; `settings` and `reminder` hold
nested mappings. Omitted values stay as they are."""


@dataclass(frozen=True, slots=True)
class GeneralSettings:
    """The settings that apply to all stores."""

    rating_calculation_method: RatingMethod = RatingMethod.AVERAGE
    return_number_template: str = DEFAULT_NUMBER_TEMPLATE
    return_statuses: tuple[str, ...] = DEFAULT_STATUSES
    reminder: ReminderSettings = field(default_factory=ReminderSettings)


def store_name(store_id: str | None, stores: Mapping[str, Store]) -> str | None:
    """The store's name, else its id; None without a store."""
    store = stores.get(store_id) if store_id is not None else None
    return (store and store.name) or store_id


def rating_method(general: GeneralSettings, store: Store | None) -> RatingMethod:
    """A store's own method, else the general one."""
    own = store.settings.rating_calculation_method if store else None
    return own or general.rating_calculation_method


def return_number_template(general: GeneralSettings, store: Store | None) -> str:
    """A store's own template of return numbers, else the general one."""
    own = store.settings.return_number_template if store else None
    return own or general.return_number_template


def refusals(
    store: Store | None,
    *,
    user_id: str | None,
    has_purchased: bool,
    has_reviewed: bool,
    is_import: bool = False,
) -> Iterator[Refusal]:
    """Every reason why the store (None: not registered) doesn't accept a review by this author, the one to answer with
    first.

    `has_purchased`: the author bought the object there; `has_reviewed`: they have another review of it. Each matters
    only in a store that asks for it. An import brings reviews accepted elsewhere under other rules: the store has to be
    registered, and one review per customer applies.
    """
    if store is None:
        yield Refusal.UNKNOWN_STORE
        return
    settings = store.settings
    if not settings.reviews_enabled and not is_import:
        yield Refusal.REVIEWS_DISABLED
    if user_id is None and not settings.anonymous_reviews_allowed and not is_import:
        yield Refusal.ANONYMOUS_NOT_ALLOWED
    if settings.purchase_required and not is_import and not has_purchased:
        yield Refusal.PURCHASE_REQUIRED
    if settings.one_review_per_customer and user_id is not None and has_reviewed:
        yield Refusal.DUPLICATE_REVIEW


def is_open_to_customers(store: Store) -> bool:
    """True if the store accepts every review that names its author: `refusals` has nothing to look up."""
    settings = store.settings
    return settings.reviews_enabled and not settings.purchase_required and not settings.one_review_per_customer
