"""The route of moderation commands: directly to the owner of a review's place, or by the router, which forwards
them."""

import logging
from collections.abc import Collection, Mapping
from typing import Final

import structlog

from api.web.shared_queries import SharedQueries
from messaging.kafka.connection import is_broker_away
from messaging.kafka.lag import ConsumerLag
from messaging.kafka.partition_counts import PartitionCounts
from messaging.server_errors import for_log
from messaging.topics import Topic

log = structlog.get_logger()

_ROUTED: Final = Topic.MODERATION_COMMANDS


class ModerationRoute:
    """Chooses the route of moderation commands, so that those about one review take effect in the order in which they
    were acknowledged, wherever they came from.

    The direct route is shorter, but overtakes commands of upstream systems that the router has yet to forward. So it
    is taken only while there are none: one query to Kafka, which concurrent requests share. In doubt the router is
    right, also while the topic of changes grows, as its commands come after all that went directly.
    """

    def __init__(self, lag: ConsumerLag | None, partition_counts: PartitionCounts) -> None:
        self._lag = lag
        self._partition_counts = partition_counts
        self._queries = SharedQueries(self._query_router)

    async def is_direct(self) -> bool:
        """True if every command that was acknowledged before this call has been forwarded."""
        if not await self._partition_counts.is_stable():
            return False
        try:
            return (await self._queries.of([_ROUTED]))[_ROUTED]
        except Exception as error:
            # The router is right in any case; aiokafka has many errors for an unavailable broker.
            level = logging.DEBUG if is_broker_away(error) else logging.WARNING
            log.log(level, "Kafka doesn't report which commands the router has forwarded", error=for_log(error))
            return False

    async def _query_router(self, topics: Collection[Topic]) -> Mapping[Topic, bool]:
        return {topic: self._lag is not None and await self._lag.is_read(topic) for topic in topics}
