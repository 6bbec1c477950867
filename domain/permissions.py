"""Permissions, and the stores that a caller is bound to."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Permission(StrEnum):
    """A permission of a caller; the value is its name in tokens, keys and documents."""

    READ_REVIEWS = "customerReviews:read"
    CREATE_REVIEWS = "customerReviews:create"
    CREATE_REVIEWS_FOR_OTHERS = "customerReviews:createForOthers"
    MODERATE_REVIEWS = "customerReviews:update"
    DELETE_REVIEWS = "customerReviews:delete"
    REPLY_TO_REVIEWS = "customerReviews:reply"
    VOTE_ON_REVIEWS = "customerReviews:vote"
    REPORT_REVIEWS = "customerReviews:report"
    READ_RATINGS = "customerReviews:ratingRead"
    RECALCULATE_RATINGS = "customerReviews:ratingRecalc"
    READ_RETURNS = "return:read"
    CREATE_RETURNS = "return:create"
    UPDATE_RETURNS = "return:update"
    DELETE_RETURNS = "return:delete"
    READ_SETTINGS = "settings:read"
    UPDATE_SETTINGS = "settings:update"
    READ_TEMPLATES = "templates:read"
    UPDATE_TEMPLATES = "templates:update"
    READ_METRICS = "metrics:read"
    READ_AUDIT = "audit:read"
    READ_KEYS = "keys:read"
    READ_DEAD_LETTERS = "dlq:read"
    REPLAY_DEAD_LETTERS = "dlq:replay"


ALL_PERMISSIONS: Final = frozenset(Permission)
_NAMES: Final = frozenset(permission.value for permission in Permission)


def is_within(stores: Collection[str] | None, store_id: str | None) -> bool:
    """True if a sender bound to these stores (None: all) may touch things of this store (None: without a store)."""
    return stores is None or store_id in stores


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller. One that is bound to stores has no access to things without a store."""

    subject: str | None
    """Its name; None without authentication."""
    permissions: frozenset[Permission]
    stores: frozenset[str] | None = None
    """The stores that it is bound to; None: all."""

    def may(self, permission: Permission) -> bool:
        """True if it has the permission, in its stores."""
        return permission in self.permissions

    def may_touch(self, store_id: str | None) -> bool:
        """True if it may see and change things of this store (None: without a store)."""
        return is_within(self.stores, store_id)

    def may_write_as(self, user_id: str | None) -> bool:
        """True if it may write reviews as this author: None, itself, or with the permission any author."""
        return user_id in (None, self.subject) or self.may(Permission.CREATE_REVIEWS_FOR_OTHERS)


ANYBODY: Final = Caller(None, ALL_PERMISSIONS)
"""Every client of a service without authentication."""

STRANGER: Final = Caller(None, frozenset(), frozenset())
"""An unauthenticated client of a service with authentication."""


def known_permissions(names: Iterable[str]) -> frozenset[Permission]:
    """The permissions among these names; other names, such as those of other services, are ignored."""
    return frozenset(Permission(name) for name in names if name in _NAMES)
