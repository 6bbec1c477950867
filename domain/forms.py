"""Forms on pages: stamps that prove when and for which object a form was opened, and reasons for refusing submissions.

A stamp is the time in milliseconds since 1970, a dot, and an HMAC-SHA-256 in base64url. The signature covers the
object, the store and the time, so a stamp is valid for one object in one store.
"""

import hmac
import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from domain.objects import ObjectKey
from domain.signatures import is_signed, signature
from domain.timestamps import from_milliseconds, milliseconds

LEAST_TIME: Final = timedelta(seconds=3)
"""Minimum time from opening a form to sending it: nobody reads it and fills it in faster."""

MOST_TIME: Final = timedelta(hours=24)
"""Validity of a stamp."""

_STAMP: Final = "plaudit form stamp 1"
_CHECK: Final = "plaudit form check 1"


class FormRefusal(StrEnum):
    """The reason for refusing a submitted form."""

    WEBSITE_FILLED = "website-filled"
    STAMP_MISSING = "stamp-missing"
    STAMP_INVALID = "stamp-invalid"
    STAMP_EXPIRED = "stamp-expired"
    TOO_FAST = "too-fast"
    CHECK_MISSING = "check-missing"
    CHECK_FAILED = "check-failed"
    CHECK_EXPIRED = "check-expired"

    @property
    def field(self) -> str:
        """The field at fault."""
        return _FIELDS[self]

    @property
    def message(self) -> str:
        """One sentence for the caller, including the remedy."""
        return _MESSAGES[self]


_FIELDS: Final = {
    FormRefusal.WEBSITE_FILLED: "website",
    FormRefusal.STAMP_MISSING: "stamp",
    FormRefusal.STAMP_INVALID: "stamp",
    FormRefusal.STAMP_EXPIRED: "stamp",
    FormRefusal.TOO_FAST: "stamp",
    FormRefusal.CHECK_MISSING: "check",
    FormRefusal.CHECK_FAILED: "check",
    FormRefusal.CHECK_EXPIRED: "check",
}
_MESSAGES: Final = {
    FormRefusal.WEBSITE_FILLED: "The field `website` is a trap for bots: leave it empty.",
    FormRefusal.STAMP_MISSING: "The stamp is missing: request `form` when the form is opened, and send its `stamp`.",
    FormRefusal.STAMP_INVALID: "The stamp is not valid for this object and store: request `form` again.",
    FormRefusal.STAMP_EXPIRED: "The form was opened more than 24 hours ago: request `form` again, and send the "
    "review with the new stamp.",
    FormRefusal.TOO_FAST: "The form was sent less than 3 seconds after it was opened: wait, and send it again.",
    FormRefusal.CHECK_MISSING: "The check is missing: solve the challenge in `check` of `form`, and send the solution.",
    FormRefusal.CHECK_FAILED: "The check doesn't solve a challenge for this object and store: request `form` again.",
    FormRefusal.CHECK_EXPIRED: "The challenge has expired: request `form` again, and solve the new one.",
}


def new_stamp(object_key: ObjectKey, at: datetime, key: bytes) -> str:
    """The stamp of a form opened at that moment, as URL-safe text."""
    moment = str(milliseconds(at))
    return f"{moment}.{signature(_purpose(_STAMP, object_key, moment), key)}"


def refusal_of_stamp(
    text: str | None, object_key: ObjectKey, keys: Sequence[bytes], at: datetime, least: timedelta = LEAST_TIME
) -> FormRefusal | None:
    """The reason for refusing a form with this stamp at that moment, or None. A stamp is valid if one of `keys` signed
    it; `least` is the minimum time since the form was opened."""
    if not text:
        return FormRefusal.STAMP_MISSING
    moment, _, found = text.partition(".")
    if not is_signed(_purpose(_STAMP, object_key, moment), found, keys):
        return FormRefusal.STAMP_INVALID
    age = at - from_milliseconds(int(moment))
    if age > MOST_TIME:
        return FormRefusal.STAMP_EXPIRED
    return FormRefusal.TOO_FAST if age < least else None


def check_key(object_key: ObjectKey, key: bytes) -> bytes:
    """The key that signs challenges for an object in a store."""
    return hmac.digest(key, _purpose(_CHECK, object_key), "sha256")


def _purpose(label: str, object_key: ObjectKey, *parts: str) -> bytes:
    """The bytes to sign: distinct from anything else signed with these keys, and unique for each list of parts."""
    return f"{label}\n{json.dumps([object_key.store_id, *object_key.entity, *parts])}".encode()
