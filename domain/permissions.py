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
    """True if a sender that is bound to these stores, None for all, may touch things of this store, or without one."""
    return stores is None or store_id in stores


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller: its name, None without authentication; its permissions; its stores, None for all.

    A caller that is bound to stores has no part in what belongs to no store.
    """

    subject: str | None
    permissions: frozenset[Permission]
    stores: frozenset[str] | None = None

    def may(self, permission: Permission) -> bool:
        """True if it has the permission, in its stores."""
        return permission in self.permissions

    def may_touch(self, store_id: str | None) -> bool:
        """True if it may see and change things of this store, or without one."""
        return is_within(self.stores, store_id)

    def may_write_as(self, user_id: str | None) -> bool:
        """True if it may write reviews as this author: None, itself, or anybody with the permission."""
        return user_id in (None, self.subject) or self.may(Permission.CREATE_REVIEWS_FOR_OTHERS)


ANYBODY: Final = Caller(None, ALL_PERMISSIONS)
"""Every client of a service without authentication."""

STRANGER: Final = Caller(None, frozenset(), frozenset())
"""A client that doesn't say who it is, where that matters."""


def known_permissions(names: Iterable[str]) -> frozenset[Permission]:
    """The permissions among these names; names of other services are left out."""
    return frozenset(Permission(name) for name in names if name in _NAMES)
