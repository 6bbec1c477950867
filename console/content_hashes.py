"""Hashes of the content that a page showed, carried by its forms. They keep visitors from deciding about, deleting or
overwriting content that they haven't seen.

A decision about a review has three guards:
- the hash of its content, which the console compares before it sends the command (`staleness`): text, rating, name,
  images, and settled reports. It misses later changes. The comparison is skipped while the database is unavailable,
  and for visitors who may not read reviews;
- `textHashes`, the first part of it, of title and text, which the consumer compares when the decision takes effect: an
  edit of these in between leads to `text-changed`;
- `expectedStatus`, which the consumer compares as well: somebody else's decision in between leads to `status-changed`.
  It doesn't cover the content.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from console.api_client import Refused
from domain.moderation_rules_text import text_hash

CHANGED: Final = "text-changed"
"""The API's reason for leaving a review alone: its content has changed since it was shown."""

KEPT: Final = "kept"
"""The reason for leaving a reported review alone: somebody has kept it since, which settled its reports."""

_REPORTED_SUFFIX: Final = "!"
_HASH_LENGTH: Final = 64
"""Length of the first part of a review's hash, which is that of title and text."""


def content_hash(*values: object) -> str:
    """The hash of some values, which changes with each of them."""
    return sha256("\0".join(map(repr, values)).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def hash_of_review(row: Mapping[str, Any]) -> str:
    """The hash of the author's content, which a decision is about; it begins with the hash of the text."""
    images = (image["id"] for image in row["images"])
    pending = (row["pendingImages"],) if row["pendingImages"] else ()
    return text_of_row(row) + content_hash(float(row["rating"]), row["userName"], *images, *pending)


def text_of_row(row: Mapping[str, Any]) -> str:
    """The hash of a row's title and text."""
    return text_hash(row["title"], row["review"])


def texts_seen(seen: Mapping[str, str]) -> dict[str, str]:
    """The hashes of the texts that pages showed, by review id; `seen` has the hashes."""
    return {id: each[:_HASH_LENGTH] for id, each in seen.items() if len(each) >= _HASH_LENGTH}


def hash_for_decision(row: Mapping[str, Any]) -> str:
    """The hash of a review in forms that decide about it, with a suffix if it is public and has open reports."""
    return hash_of_review(row) + (_REPORTED_SUFFIX if row["reports"] and row["reviewStatus"] == "Approved" else "")


def staleness(seen: str, row: Mapping[str, Any], action: str) -> str | None:
    """The reason for leaving a review alone that a page showed with this hash; None if it may be decided about. A
    visitor may approve what somebody else has kept since: both agree."""
    if seen.removesuffix(_REPORTED_SUFFIX) != hash_of_review(row):
        return CHANGED
    is_kept = seen.endswith(_REPORTED_SUFFIX) and row["reviewStatus"] == "Approved" and not row["reports"]
    return KEPT if is_kept and action != "approve" else None


def hash_of_reply(row: Mapping[str, Any]) -> str:
    """The hash of the store's reply to a review."""
    reply = row["reply"]
    return content_hash(reply["text"], reply["author"]) if reply else content_hash()


def hash_of_return(row: Mapping[str, Any]) -> str:
    """The hash of the fields that forms of a return change, except its status."""
    lines = ((line["orderLineItemId"], line["quantity"], line["reason"]) for line in row["lineItems"])
    return content_hash(row["resolution"], *lines)


def check_seen(form: Mapping[str, Any], now: str, what: str, *, is_done: bool = False) -> None:
    """Raises Refused (409) if a form shows an outdated state: `now` is the current hash, `what` names the thing. Not if
    its change `is_done` already: a form that is sent twice finds its own change."""
    if not is_done and form.get("seen", now) != now:
        raise Refused(
            409, {"detail": f"Somebody has changed {what} in the meantime. Look at the current version first."}
        )
