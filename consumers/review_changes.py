"""Consume the changes of reviews: moderation and recounts, in the order of each object."""

from __future__ import annotations

from collections.abc import Sequence

from consumers.moderation import Moderator
from consumers.ratings import Recounter
from consumers.services import Services
from domain.delivery import RecordPosition
from domain.ratings import Entity
from messaging.decoding import Received
from messaging.moderation import ModerationOfReview
from messaging.reviews import RecountOfEntity, RecountOfStore, ReviewChange
from messaging.tracing import same_cause


class ReviewChangeConsumer:
    """Owns the reviews and ratings of each object.

    Delivered at least once, in the order of each object, effective once: see `Moderator` and `Recounter`.
    """

    def __init__(self, services: Services) -> None:
        self._moderator = Moderator(services)
        self._recounter = Recounter(services)

    async def __call__(self, batch: Sequence[Received[ReviewChange]]) -> None:
        """Apply a batch."""
        moderations = []
        for received in batch:
            if isinstance(change := received.message, ModerationOfReview):
                same_cause(received.record, RecordPosition(*change.source))
                moderations.append(change.moderation(received.at))
        await self._moderator.apply(moderations)
        # A recount comes to the same wherever it stands between the changes of an object.
        entities = {Entity(c.entity_type, c.entity_id) for _, c in batch if isinstance(c, RecountOfEntity)}
        await self._recounter.recount(entities)
        for _, change in batch:
            if isinstance(change, RecountOfStore):
                await self._recounter.fan_out(change)
