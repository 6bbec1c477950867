"""Ended sessions, as a facade knows them: looked up in MongoDB, and told by Kafka."""

from typing import Final

from api.auth.timed_cache import TimedCache
from api.services import Services
from domain.sessions import LIFETIME
from messaging.topics import Topic

REMEMBERED_SECONDS: Final = 4.0
"""For so long a session that was ended at another facade may still open; a second more is for the way there."""

_REMEMBERED_SESSIONS: Final = 10_000


class EndedSessions:
    """Tells sessions that somebody signed out of. A session that is ended here opens nothing here from then on."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._known: TimedCache[bool] = TimedCache(_REMEMBERED_SESSIONS)

    async def contains(self, id: str) -> bool:
        """True if the session has ended. Raises what MongoDB's being away raises: in doubt nobody is let in."""
        name = id.encode()
        known = self._known.get(name)
        if known is None:
            known = await self._services.sessions.is_ended(id)
            if self._known.get(name):
                return True  # it was ended here while MongoDB was asked
            self._known.put(name, known, LIFETIME.total_seconds() if known else REMEMBERED_SECONDS)
        return known

    async def end(self, id: str) -> None:
        """End a session, once Kafka has that. Raises BrokerAwayError; the session stays then."""
        message = self._services.message(Topic.ENDED_SESSIONS, id, "session.ended", {"sessionId": id})
        await self._services.publisher.publish([message])
        self._known.put(id.encode(), True, LIFETIME.total_seconds())
