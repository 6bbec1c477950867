"""Statements of reasons for the authors of rejected reviews."""

from __future__ import annotations

from typing import Final, Literal

from typing_extensions import TypedDict

from domain.moderation import Moderation
from domain.reviews import ModerationAction

_CONTEST: Final = "Write to the store, name the id of the review, and a person looks at it again."


class StatementOfReasons(TypedDict):
    """The statement that the author of a rejected review has to get (Regulation (EU) 2022/2065, DSA, Article 17): to
    whom, why, who decided (`moderator`, or `system` where nobody is named), and how to object."""

    userId: str
    reasonCode: str | None
    reason: str | None
    decidedBy: Literal["moderator", "system"]
    contest: str


def statement_of_reasons(command: Moderation, user_id: str | None) -> StatementOfReasons | None:
    """The statement for the author of a review that this command rejects; None where nobody is to be told."""
    if command.action is not ModerationAction.REJECT or user_id is None:
        return None
    return {
        "userId": user_id,
        "reasonCode": command.reason_code,
        "reason": command.reason,
        "decidedBy": "moderator" if command.moderator else "system",
        "contest": _CONTEST,
    }
