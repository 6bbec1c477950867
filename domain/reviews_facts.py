"""The parts of a review beyond its text: where it comes from, what others answered, its images."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

BY_RULE: Final = "rule:"
BY_VERDICT: Final = "verdict:"
"""The names begin so under which classifiers moderate and flag; those of flags of rules don't."""

REJECTED_BEFORE: Final = "rejected-before"
"""The flag of a review that its author has edited since a moderator rejected it: it waits for one again."""


class Source(StrEnum):
    """The way on which a review came."""

    API = "api"
    KAFKA = "kafka"
    IMPORT = "import"
    WIDGET = "widget"
    REMINDER = "reminder"


BY_STRANGERS: Final = frozenset((Source.WIDGET, Source.REMINDER))
"""The ways from pages, on which no shop vouches for what is said beside the text."""


class ReasonCode(StrEnum):
    """The reason for a rejection. A low rating is none."""

    SPAM = "spam"
    OFFENSIVE = "offensive"
    PERSONAL_DATA = "personal-data"
    OFF_TOPIC = "off-topic"
    ILLEGAL = "illegal"
    FAKE = "fake"
    DUPLICATE = "duplicate"
    OTHER = "other"


class Facts(NamedTuple):
    """Facts about a review. `verified_purchase` is worked out from orders, or true for good where a review token came
    (`is_proven`); `language` is a BCP 47 tag, detected unless the sender gave it."""

    verified_purchase: bool = False
    incentivized: bool = False
    source: Source | None = None
    language: str | None = None
    is_proven: bool = False
    is_language_given: bool = False

    @property
    def is_language_of_stranger(self) -> bool:
        """True if its author alone names its language."""
        return self.is_language_given and self.source in BY_STRANGERS


class Reply(NamedTuple):
    """The store's answer to a review. Times are aware, in UTC."""

    text: str
    author: str | None
    created: datetime
    modified: datetime


def verdict_flags(flags: Iterable[str]) -> tuple[str, ...]:
    """The flags of classifiers among these."""
    return tuple(flag for flag in flags if flag.startswith(BY_VERDICT))


_CLOCKS_APART: Final = timedelta(seconds=2)
"""The clock of a facade, which says when somebody approved, may be so far ahead of MongoDB's, which says when an image
became ready. `plaudit doctor` warns beyond."""


class ReviewImage(NamedTuple):
    """An image of a review; a moderator can hide it. Pending: it has not been rebuilt yet, and isn't shown. `ready_at`:
    since when it can be seen, by MongoDB's clock, where the review was there before."""

    id: str
    is_hidden: bool = False
    is_pending: bool = False
    ready_at: datetime | None = None

    @property
    def is_shown(self) -> bool:
        """True if everybody sees it once the review is approved."""
        return not self.is_hidden and not self.is_pending

    def is_seen(self, at: datetime) -> bool:
        """True if whoever looked at the review at that moment could certainly see it."""
        return not self.is_pending and (self.ready_at is None or self.ready_at + _CLOCKS_APART < at)


class Responses(NamedTuple):
    """The number of votes of each kind about a review, and of reports."""

    helpful: int = 0
    not_helpful: int = 0
    reports: int = 0


NO_FACTS = Facts()
NO_RESPONSES = Responses()
