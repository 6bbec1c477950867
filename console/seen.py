"""Marks of what a page showed, which its forms carry: nobody decides about, deletes, or writes over what he hasn't
seen.

A decision about a review has three guards:
- the mark, which the console compares before it sends the command (`staleness`): text, rating, name, images, and
  reports that were settled. It misses what changes after that look, which is left out while the database is away, and
  for whoever may not read reviews;
- `textHashes`, the mark's name of title and text, which the consumer compares when the decision takes effect: an edit
  of these in between leads to `text-changed`;
- `expectedStatus`, which it compares then, too: somebody else's decision in between leads to `status-changed`. It says
  nothing of the content.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from console.facade import Refused
from domain.moderation_rules_text import text_hash

CHANGED: Final = "text-changed"
"""The reason for leaving a review alone that says something else by now, as the interface has it."""

KEPT: Final = "kept"
"""The reason for leaving a reported review alone that somebody has kept meanwhile: its reports are settled."""

_REPORTED: Final = "!"
_TEXT: Final = 64
"""The length of the part of a mark that names the text."""


def mark(*values: object) -> str:
    """The mark of some values: another one as soon as one of them is another."""
    return sha256("\0".join(map(repr, values)).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def mark_of_review(row: Mapping[str, Any]) -> str:
    """The mark of what a decision is about: the things that the author wrote, the text first."""
    images = (image["id"] for image in row["images"])
    pending = (row["pendingImages"],) if row["pendingImages"] else ()
    return text_of_row(row) + mark(float(row["rating"]), row["userName"], *images, *pending)


def text_of_row(row: Mapping[str, Any]) -> str:
    """The name of the text of a row."""
    return text_hash(row["title"], row["review"])


def texts_seen(seen: Mapping[str, str]) -> dict[str, str]:
    """The names of the texts that pages showed, by the ids of their reviews, of which `seen` has the marks."""
    return {id: mark[:_TEXT] for id, mark in seen.items() if len(mark) >= _TEXT}


def mark_for_decision(row: Mapping[str, Any]) -> str:
    """The mark of a review in the forms that decide about it: with a sign where it is public, and reports are open."""
    return mark_of_review(row) + (_REPORTED if row["reports"] and row["reviewStatus"] == "Approved" else "")


def staleness(seen: str, row: Mapping[str, Any], action: str) -> str | None:
    """The reason for leaving a review alone that a page showed with this mark; None where it may be decided about.
    Who keeps it agrees with whom has kept it meanwhile."""
    if seen.removesuffix(_REPORTED) != mark_of_review(row):
        return CHANGED
    is_kept = seen.endswith(_REPORTED) and row["reviewStatus"] == "Approved" and not row["reports"]
    return KEPT if is_kept and action != "approve" else None


def mark_of_reply(row: Mapping[str, Any]) -> str:
    """The mark of the store's reply to a review."""
    reply = row["reply"]
    return mark(reply["text"], reply["author"]) if reply else mark()


def mark_of_return(row: Mapping[str, Any]) -> str:
    """The mark of what the forms of a return change, beside its status."""
    lines = ((line["orderLineItemId"], line["quantity"], line["reason"]) for line in row["lineItems"])
    return mark(row["resolution"], *lines)


def check_seen(form: Mapping[str, Any], now: str, what: str, *, is_done: bool = False) -> None:
    """Raises Refused (409) where a form was made of something else than there is now; `what` names that. Not where it
    `is_done`: a form that is sent twice finds what it has done itself."""
    if not is_done and form.get("seen", now) != now:
        raise Refused(409, {"detail": f"Somebody has changed {what} meanwhile. Look at it as it is now first."})
