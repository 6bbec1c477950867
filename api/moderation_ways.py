"""The way of moderation: straight to the owner of its place, or by the router, which passes it on."""

import logging
from collections.abc import Collection, Mapping
from typing import Final

import structlog

from api.web.together import Together
from messaging.kafka.connection import is_broker_away
from messaging.kafka.division import Division
from messaging.kafka.lag import ConsumerLag
from messaging.topics import Topic

log = structlog.get_logger()

_ROUTED: Final = Topic.MODERATION_COMMANDS


class ModerationWays:
    """Chooses the way of moderation, so that commands about one review take effect in the order in which they were
    acknowledged, wherever they came from.

    Straight is shorter, but overtakes what upstream systems have published and the router has yet to pass on. So it is
    taken while nothing is: one question to Kafka, which requests of the same time share. In doubt the router is right,
    as it comes behind whatever went straight, also while the topic of changes grows.
    """

    def __init__(self, lag: ConsumerLag | None, division: Division) -> None:
        self._lag = lag
        self._division = division
        self._looks = Together(self._look)

    async def is_straight(self) -> bool:
        """True if every command that was acknowledged before this call has been passed on."""
        if not await self._division.is_settled():
            return False
        try:
            return (await self._looks.of([_ROUTED]))[_ROUTED]
        except Exception as error:
            # Whatever it is, the router is right; aiokafka has many errors for a broker that goes away.
            level = logging.DEBUG if is_broker_away(error) else logging.WARNING
            log.log(level, "Kafka doesn't tell what the router has passed on", error=repr(error)[:300])
            return False

    async def _look(self, topics: Collection[Topic]) -> Mapping[Topic, bool]:
        return {topic: self._lag is not None and await self._lag.is_read(topic) for topic in topics}
