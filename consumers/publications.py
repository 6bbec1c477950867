"""Approve reviews that only their few stars held back, once their time has come."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID, uuid5

from consumers.services import Services
from domain.delivery import OutgoingMessage
from domain.reviews import ModerationAction, ReviewStatus
from domain.timestamps import milliseconds
from messaging.envelope import of_command
from messaging.topics import Topic
from storage.moderation_rules import Publication

_COMMANDS: Final = UUID("6f0f1d0a-6a0e-5d52-8a4e-2f3f6c1f9b7e")
_MOST: Final = 1_000


async def publish_due(services: Services, now: datetime) -> int:
    """Send the approvals whose time has come; returns how many there were.

    At least once, each with the same command id, so that a repeat changes nothing. Where a moderator has decided, or
    the review is another's by then, there is none.
    """
    due = await services.publications.due(now, _MOST)
    undecided = await services.publications.undecided(due)
    approvals = [_approval(services, each) for each in undecided]
    await services.publisher.publish(approvals)
    await services.publications.remove(due)
    return len(approvals)


def _approval(services: Services, due: Publication) -> OutgoingMessage:
    command_id = str(uuid5(_COMMANDS, f"{due.review_id}/{milliseconds(due.at)}"))
    value = {
        "action": ModerationAction.APPROVE,
        "ids": [due.review_id],
        "moderator": due.rule,
        "expectedStatus": ReviewStatus.NEW.label,
        "commandId": command_id,
    }
    message = services.message(Topic.MODERATION_COMMANDS, due.review_id, "review.moderation", value)
    return of_command(message, command_id)
