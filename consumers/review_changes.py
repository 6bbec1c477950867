"""Consume the changes of reviews: moderation and recounts, in the order of each object."""

from __future__ import annotations

from collections.abc import Sequence

from consumers.moderation import Moderator
from consumers.ratings import Recounter
from consumers.services import Services
from domain.delivery import RecordPosition
from domain.ratings import Entity
from domain.timestamps import from_milliseconds
from messaging.dead_letters import dead_letter_message
from messaging.decoding import RawRecord, decoded
from messaging.moderation import ModerationOfReview
from messaging.reviews import REVIEW_CHANGE, RecountOfEntity, RecountOfStore
from messaging.tracing import same_cause


class ReviewChangeConsumer:
    """Owns the reviews and ratings of each object.

    Delivered at least once, in the order of each object, effective once: see `Moderator` and `Recounter`.
    """

    def __init__(self, services: Services) -> None:
        self._publisher = services.publisher
        self._moderator = Moderator(services)
        self._recounter = Recounter(services)

    async def __call__(self, records: Sequence[RawRecord]) -> None:
        """Apply a batch."""
        good, bad = decoded(records, REVIEW_CHANGE.validate_json)
        await self._publisher.publish([dead_letter_message(letter) for letter in bad])
        moderations = []
        for record, change in good:
            if isinstance(change, ModerationOfReview):
                same_cause(record, RecordPosition(*change.source))
                moderations.append(change.moderation(from_milliseconds(record.timestamp)))
        await self._moderator.apply(moderations)
        # A recount comes to the same wherever it stands between the changes of an object.
        await self._recounter.recount(
            {Entity(c.entity_type, c.entity_id) for _, c in good if isinstance(c, RecountOfEntity)}
        )
        for _, change in good:
            if isinstance(change, RecountOfStore):
                await self._recounter.fan_out(change)
