"""Ended sessions: looked up in MongoDB, and ended by a message to Kafka."""

from typing import Final

from api.auth.timed_cache import TimedCache
from api.services import Services
from domain.sessions import LIFETIME
from messaging.topics import Topic

REMEMBERED_SECONDS: Final = 4.0
"""Seconds for which a session may still be accepted after it was ended in another process, plus about one second until
MongoDB has that."""

_REMEMBERED_SESSIONS: Final = 10_000


class EndedSessions:
    """Knows the sessions that were ended by signing out. One that is ended in this process is refused here at once."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._known: TimedCache[bool] = TimedCache(_REMEMBERED_SESSIONS)

    async def contains(self, id: str) -> bool:
        """True if the session has ended. Raises PyMongo's error without MongoDB: in doubt nobody is let in."""
        name = id.encode()
        known = self._known.get(name)
        if known is None:
            known = await self._services.sessions.is_ended(id)
            if self._known.get(name):
                return True  # it was ended here during the query
            self._known.put(name, known, LIFETIME.total_seconds() if known else REMEMBERED_SECONDS)
        return known

    async def end(self, id: str) -> None:
        """End a session by a message that Kafka acknowledges. Raises BrokerAwayError: the session is still valid."""
        message = self._services.message(Topic.ENDED_SESSIONS, id, "session.ended", {"sessionId": id})
        await self._services.publisher.publish([message])
        self._known.put(id.encode(), True, LIFETIME.total_seconds())
