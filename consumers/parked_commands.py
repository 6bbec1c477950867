"""Parked commands: released once their review is stored, or given up in the end."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from consumers.feedback import FeedbackConsumer
from consumers.images.commands import ImageCommandConsumer
from consumers.routing import CommandRouter
from consumers.verdicts import VerdictConsumer
from domain.ratings import Entity


@dataclass(frozen=True, slots=True)
class ParkedCommands:
    """Moderation, feedback, verdicts and image commands that arrived before the submission of their review."""

    moderation: CommandRouter
    feedback: FeedbackConsumer
    verdicts: VerdictConsumer
    images: ImageCommandConsumer

    async def release(self, entities: Mapping[str, Entity]) -> None:
        """Release the commands parked for these reviews, which are stored."""
        await self.verdicts.release(entities.keys())
        await self.moderation.release(entities)
        await self.feedback.release(entities.keys())
        await self.images.release(entities.keys())

    async def are_overdue(self, before: datetime) -> bool:
        """True if any command was parked before that moment."""
        services = self.moderation.services
        waiting = (
            services.parked_moderation,
            services.parked_feedback,
            services.parked_verdicts,
            services.parked_image_commands,
        )
        return any([await each.are_overdue(before) for each in waiting])

    async def give_up_overdue(self, before: datetime) -> int:
        """Give up some commands parked before that moment. Returns the number given up."""
        waiting = (self.moderation, self.feedback, self.verdicts, self.images)
        return sum([await each.give_up_overdue(before) for each in waiting])
