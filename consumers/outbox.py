"""Events that belong to a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bson import ObjectId

from domain.delivery import OutgoingMessage
from messaging.kafka.publisher import Publisher
from storage.outbox import OutboxRepository


@dataclass(frozen=True, slots=True)
class EventOutbox:
    """Events that belong to a transaction: owed within it, published after it, told at least once."""

    outbox: OutboxRepository
    publisher: Publisher

    async def settle(self, id: ObjectId | None, messages: Sequence[OutgoingMessage]) -> None:
        """Publish what was owed, and forget it."""
        if id is not None:
            await self.publisher.publish(messages)
            await self.outbox.settle(id)

    async def settle_overdue(self, before: datetime) -> int:
        """Publish what a worker that died still owed before that moment. Returns how many batches there were."""
        owed = await self.outbox.owed_before(before, limit=20)
        for id, messages in owed:
            await self.settle(id, messages)
        return len(owed)
