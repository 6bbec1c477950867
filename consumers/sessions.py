"""Consume ended sessions of the console."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from consumers.services import Services
from messaging.decoding import Received
from messaging.sessions import EndedSession


@dataclass(frozen=True, slots=True)
class SessionConsumer:
    """Stores ended sessions, for the facades to look up.

    Delivered at least once; a repeat changes nothing.
    """

    services: Services

    async def __call__(self, batch: Sequence[Received[EndedSession]]) -> None:
        """Store a batch."""
        await self.services.sessions.end({received.message.session_id for received in batch}, datetime.now(UTC))
