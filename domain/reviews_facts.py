"""The parts of a review beyond its text: its facts, the responses to it, its images."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

BY_RULE: Final = "rule:"
"""Prefix of the names under which rules moderate; their flags have no prefix."""
BY_VERDICT: Final = "verdict:"
"""Prefix of the names under which classifiers moderate and flag."""

REJECTED_BEFORE: Final = "rejected-before"
"""The flag of a review that its author edited after a moderator rejected it: it waits for a moderator again."""


class Source(StrEnum):
    """The channel by which a review was submitted."""

    API = "api"
    KAFKA = "kafka"
    IMPORT = "import"
    WIDGET = "widget"
    REMINDER = "reminder"


BY_STRANGERS: Final = frozenset((Source.WIDGET, Source.REMINDER))
"""The channels from public pages: no shop vouches for the claims beside the text."""


class ReasonCode(StrEnum):
    """The reason for a rejection. A low rating is not one of them."""

    SPAM = "spam"
    OFFENSIVE = "offensive"
    PERSONAL_DATA = "personal-data"
    OFF_TOPIC = "off-topic"
    ILLEGAL = "illegal"
    FAKE = "fake"
    DUPLICATE = "duplicate"
    OTHER = "other"


class Facts(NamedTuple):
    """Facts about a review."""

    verified_purchase: bool = False
    """Derived from orders, but permanently true after a review token (`is_proven`)."""
    incentivized: bool = False
    source: Source | None = None
    language: str | None = None
    """A BCP 47 tag, detected unless the sender named it (`is_language_given`)."""
    is_proven: bool = False
    is_language_given: bool = False

    @property
    def is_language_of_stranger(self) -> bool:
        """True if only the author vouches for the language."""
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


_CLOCK_SKEW: Final = timedelta(seconds=2)
"""Tolerated lead of a facade's clock, which dates approvals, over MongoDB's clock, which dates the readiness of images.
`plaudit doctor` warns about more."""


class ReviewImage(NamedTuple):
    """An image of a review."""

    id: str
    is_hidden: bool = False
    """True if it is hidden until a moderator shows it."""
    is_pending: bool = False
    """True if it has not been rebuilt yet, and so isn't shown."""
    ready_at: datetime | None = None
    """Time since which it can be seen, by MongoDB's clock, if the review is older."""
    is_unseen: bool = False
    """True if it is hidden only because no moderator had seen it when its review was approved or edited, and none has
    shown or hidden it since."""

    @property
    def is_shown(self) -> bool:
        """True if it is public once the review is approved."""
        return not self.is_hidden and not self.is_pending

    def is_seen(self, at: datetime) -> bool:
        """True if anyone looking at the review at that moment could certainly see it."""
        return not self.is_pending and (self.ready_at is None or self.ready_at + _CLOCK_SKEW < at)


class Responses(NamedTuple):
    """The numbers of votes of each kind on a review, and of reports."""

    helpful: int = 0
    not_helpful: int = 0
    reports: int = 0


NO_FACTS = Facts()
NO_RESPONSES = Responses()
