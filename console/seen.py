"""Marks of what a page showed, which its forms carry: nobody decides about, or writes over, what he hasn't seen."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from console.facade import Refused


def mark(*values: object) -> str:
    """The mark of some values: another one as soon as one of them is another."""
    return sha256("\0".join(map(repr, values)).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def mark_of_review(row: Mapping[str, Any]) -> str:
    """The mark of what a decision is about: the things that the author wrote."""
    images = (image["id"] for image in row["images"])
    return mark(row["title"], row["review"], float(row["rating"]), row["userName"], *images)


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
