"""Stores, their settings, and who may leave a review there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from string import Formatter
from typing import Final

from domain.ratings import RatingMethod

DEFAULT_RETURN_NUMBER_TEMPLATE: Final = "RET{date:%y%m%d}-{sequence:05d}"
RETURN_NUMBER_SAMPLE: Final = (date(2022, 3, 14), 1)


class InvalidTemplateError(ValueError):
    """The template of return numbers can't be used; the message says why."""


class Refusal(StrEnum):
    """The reason for refusing a review: a rule of its store, or an id that is taken."""

    REVIEWS_DISABLED = "reviews-disabled"
    ANONYMOUS_NOT_ALLOWED = "anonymous-not-allowed"
    PURCHASE_REQUIRED = "purchase-required"
    ID_TAKEN = "id-taken"
    INVALID_PROOF = "token-invalid"
    EXPIRED_PROOF = "token-expired"
    MISMATCHED_PROOF = "token-mismatch"
    USED_PROOF = "token-used"

    @property
    def message(self) -> str:
        """One sentence for the caller, with what to do about it."""
        return _REFUSAL_MESSAGES[self]


_REFUSAL_MESSAGES: Final = {
    Refusal.REVIEWS_DISABLED: "No reviews are taken: enable `reviewsEnabled` in the settings of the store, or of "
    "the object where an object update has switched it off.",
    Refusal.ANONYMOUS_NOT_ALLOWED: "The store takes no anonymous reviews: send the author's `userId`.",
    Refusal.PURCHASE_REQUIRED: "The store takes reviews only from customers who made a purchase: "
    "the author has no order with this object.",
    Refusal.ID_TAKEN: "The id is taken: choose another one, or leave it out.",
    Refusal.INVALID_PROOF: "The review token is not one of ours: send it as it stands in the mail's link.",
    Refusal.EXPIRED_PROOF: "The review token has expired.",
    Refusal.MISMATCHED_PROOF: "The review token is for another object, store or author.",
    Refusal.USED_PROOF: "The review token was used before: it is for one review.",
}


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The settings of one store; the defaults are those of the specification."""

    reviews_enabled: bool = False
    anonymous_reviews_allowed: bool = False
    purchase_required: bool = True
    rating_calculation_method: RatingMethod | None = None
    return_number_template: str = DEFAULT_RETURN_NUMBER_TEMPLATE
    review_url: str | None = None


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


Setting = str | int | bool | Sequence[str] | None
Changes = Mapping[str, Setting | Mapping[str, Setting]]
"""New values of a store or of the general settings by the names of the interface; `settings` and `reminder` hold a
mapping of their own. What isn't named stays as it is."""


@dataclass(frozen=True, slots=True)
class GeneralSettings:
    """The settings that hold for all stores."""

    rating_calculation_method: RatingMethod = RatingMethod.AVERAGE
    reminder: ReminderSettings = field(default_factory=ReminderSettings)


def store_name(store_id: str | None, stores: Mapping[str, Store]) -> str | None:
    """The store's name, else its id; None without a store."""
    store = stores.get(store_id) if store_id is not None else None
    return (store and store.name) or store_id


def rating_method(general: GeneralSettings, store: Store | None) -> RatingMethod:
    """A store's own method, else the general one."""
    own = store.settings.rating_calculation_method if store else None
    return own or general.rating_calculation_method


def refusals(store: Store, *, user_id: str | None, has_purchased: Callable[[], bool]) -> Iterator[Refusal]:
    """Every reason for which the store doesn't take a review by this author; none when it does.

    `has_purchased` is asked only when the answer depends on it, and only once the reasons are read so far.
    """
    settings = store.settings
    if not settings.reviews_enabled:
        yield Refusal.REVIEWS_DISABLED
    if user_id is None and not settings.anonymous_reviews_allowed:
        yield Refusal.ANONYMOUS_NOT_ALLOWED
    if settings.purchase_required and not has_purchased():
        yield Refusal.PURCHASE_REQUIRED


def refusal(store: Store, *, user_id: str | None, has_purchased: Callable[[], bool]) -> Refusal | None:
    """The first reason for which the store doesn't take a review by this author, or None when it does.

    `has_purchased` is asked only when the answer depends on it.
    """
    return next(refusals(store, user_id=user_id, has_purchased=has_purchased), None)


_DATE_PART = re.compile(r"(%[YymdjV]|[-_./ ])*")
_SEQUENCE_PART = re.compile(r"(0?[1-9]\d?)?d?")
_RUN_TOGETHER = re.compile(r"D9*S|S9*[DS]")


def check_return_number_template(template: str) -> None:
    """Raises InvalidTemplateError for a template that a store is not to have.

    Beyond what `return_number` asks for: the date is shown, and it and the sequence are held apart. A sequence grows
    beyond its digits, so that without a separator nothing says where one ends and the other begins.
    """
    return_number(template, *RETURN_NUMBER_SAMPLE)
    shape = _shape(template)
    if "D" not in shape:
        raise InvalidTemplateError("The template shows no date: use {date:%y%m%d}")
    if _RUN_TOGETHER.search(shape):
        raise InvalidTemplateError(
            "Put something that is not a digit between the date and the sequence, as in RET{date:%y%m%d}-{sequence:05d}"
        )


def _shape(template: str) -> str:
    """The template with D for a digit of the date, S for a sequence, 9 for a digit of the text, x for all else."""
    shape = ""
    for text, name, spec, _ in _parsed(template):
        shape += "".join("9" if character.isdigit() else "x" for character in text)
        if name == "date":
            shown = _date(spec, RETURN_NUMBER_SAMPLE[0])
            shape += "".join("D" if character.isdigit() else "x" for character in shown)
        elif name == "sequence":
            shape += "S"
    return shape


def return_number(template: str, day: date, sequence: int) -> str:
    """The number of a return: text with `{date:...}` (strftime) and `{sequence:...}` (an integer) in it.

    Raises InvalidTemplateError for anything else, and when the template lacks a part without which two returns
    would get one number.
    """
    return _filled(template, day, lambda spec: format(sequence, spec or "d"))


def return_series(template: str, day: date) -> str:
    """The series of a template and a day: its numbers share one sequence, whatever their width."""
    return _filled(template, day, lambda _: "#")


def _filled(template: str, day: date, sequence: Callable[[str], str]) -> str:
    number = ""
    used = set()
    for text, name, spec, _ in _parsed(template):
        number += text
        used.add(name)
        if name == "date" and _DATE_PART.fullmatch(spec or ""):
            number += _date(spec, day)
        elif name == "sequence" and _SEQUENCE_PART.fullmatch(spec or ""):
            number += sequence(spec or "")
        elif name is not None:
            raise InvalidTemplateError(f"Use {{date:%y%m%d}} and {{sequence:05d}}, not {{{name}:{spec}}}")
    if not {"date", "sequence"} <= used:
        raise InvalidTemplateError("The template needs both {date:%y%m%d} and {sequence:05d}")
    return number


def _date(spec: str | None, day: date) -> str:
    return day.strftime(spec or "%y%m%d")


def _parsed(template: str) -> list[tuple[str, str | None, str | None, str | None]]:
    try:
        return list(Formatter().parse(template))
    except ValueError as error:
        raise InvalidTemplateError(f"The template can't be read: {error}") from error
