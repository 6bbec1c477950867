"""Stores, their settings, and the rules by which they accept reviews."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from domain.moderation_rules import ModerationRule
from domain.ratings import RatingMethod
from domain.returns_numbers import DEFAULT_NUMBER_TEMPLATE
from domain.returns_statuses import DEFAULT_STATUSES

GENERAL: Final = "general"
"""The id of the general settings, in place of a store's id; the key of messages that concern all stores."""


class Refusal(StrEnum):
    """The reason for refusing a review, such as a rule of its store or an id that is taken."""

    UNKNOWN_STORE = "unknown-store"
    REVIEWS_DISABLED = "reviews-disabled"
    ANONYMOUS_NOT_ALLOWED = "anonymous-not-allowed"
    PURCHASE_REQUIRED = "purchase-required"
    DUPLICATE_REVIEW = "duplicate-review"
    ID_TAKEN = "id-taken"
    INVALID_PROOF = "token-invalid"
    EXPIRED_PROOF = "token-expired"
    MISMATCHED_PROOF = "token-mismatch"
    USED_PROOF = "token-used"
    UNKNOWN_IMAGE = "unknown-image"
    REFUSED_IMAGE = "image-refused"
    IMAGE_OF_ANOTHER = "image-of-another"

    @property
    def message(self) -> str:
        """A message for the caller, including the remedy if there is one."""
        return _REFUSAL_MESSAGES[self]


_REFUSAL_MESSAGES: Final = {
    Refusal.UNKNOWN_STORE: "No store is registered with this id: register it, or correct `storeId`.",
    Refusal.REVIEWS_DISABLED: "No reviews are taken: enable `reviewsEnabled` in the settings of the store, or of "
    "the object where an object update has switched it off.",
    Refusal.ANONYMOUS_NOT_ALLOWED: "The store takes no anonymous reviews: send the author's `userId`.",
    Refusal.PURCHASE_REQUIRED: "The store takes reviews only from customers who made a purchase: "
    "the author has no order with this object.",
    Refusal.DUPLICATE_REVIEW: "The store takes one review of an object from each customer, and the author has written "
    "one: edit that one by its id.",
    Refusal.ID_TAKEN: "The id is taken: choose another one, or leave it out.",
    Refusal.INVALID_PROOF: "The review token is not one of ours: send it as it stands in the mail's link.",
    Refusal.EXPIRED_PROOF: "The review token has expired.",
    Refusal.MISMATCHED_PROOF: "The review token is for another object, store or author.",
    Refusal.USED_PROOF: "The review token was used before: it is for one review.",
    Refusal.UNKNOWN_IMAGE: "There is no such image: upload it, and send the id that the upload is answered with. One "
    "that no review has goes after 24 hours.",
    Refusal.REFUSED_IMAGE: "No image could be made of the upload: see the outcome of its command.",
    Refusal.IMAGE_OF_ANOTHER: "The image belongs to another review, or to another author: upload it again.",
}


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
"""New values of a store or of the general settings by their names in the interface; `settings` and `reminder` hold
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
    has_purchased: Callable[[], bool],
    has_reviewed: Callable[[], bool],
    is_import: bool = False,
) -> Iterator[Refusal]:
    """Every reason why the store (None: not registered) doesn't accept a review by this author.

    `has_purchased` and `has_reviewed` are called lazily, and only if a reason depends on them. `has_reviewed` returns
    True if the author has another review of the object there. An import brings reviews accepted elsewhere under other
    rules: the store has to be registered, and one review per customer applies.
    """
    if store is None:
        yield Refusal.UNKNOWN_STORE
        return
    settings = store.settings
    if not settings.reviews_enabled and not is_import:
        yield Refusal.REVIEWS_DISABLED
    if user_id is None and not settings.anonymous_reviews_allowed and not is_import:
        yield Refusal.ANONYMOUS_NOT_ALLOWED
    if settings.purchase_required and not is_import and not has_purchased():
        yield Refusal.PURCHASE_REQUIRED
    if settings.one_review_per_customer and user_id is not None and has_reviewed():
        yield Refusal.DUPLICATE_REVIEW


def refusal(
    store: Store | None,
    *,
    user_id: str | None,
    has_purchased: Callable[[], bool],
    has_reviewed: Callable[[], bool],
    is_import: bool = False,
) -> Refusal | None:
    """The first of `refusals`; None if the store accepts the review."""
    found = refusals(
        store, user_id=user_id, has_purchased=has_purchased, has_reviewed=has_reviewed, is_import=is_import
    )
    return next(found, None)


def is_open_to_customers(store: Store) -> bool:
    """True if the store accepts every review that names its author: `refusals` has nothing to look up."""
    settings = store.settings
    return settings.reviews_enabled and not settings.purchase_required and not settings.one_review_per_customer
