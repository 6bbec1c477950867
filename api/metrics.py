"""The endpoint for Prometheus: what this process counted, and what only the servers know."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Final

import structlog
from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import PlainTextResponse

from api.auth.permissions import MetricsReader
from api.services import Services
from api.stores.bounds import check_unbound
from messaging.kafka.connection import is_broker_away
from messaging.kafka.lag import Lag
from messaging.kafka.standstill import LOOK_EVERY_S, Standstill
from messaging.metrics import (
    CONSUMER_LAG,
    CONSUMER_STANDSTILL,
    OUTBOX,
    PARKED,
    REGISTRY,
    REVIEWS_TOPIC_AGE,
    STATE_KNOWN,
)
from storage.database import is_database_away
from storage.outbox import COLLECTION as OUTBOX_COLLECTION
from storage.parking import COLLECTION as PARKED_REVIEWS
from storage.returns import PARKED as PARKED_RETURNS
from storage.reviews_changes import RelayProgress

_FRESH_S: Final = 2.0
"""For so long an answer of the servers is good enough, however many ask."""

_PATIENCE_S: Final = 4.0
"""Below Prometheus' own limit, so that our own numbers are told also when the servers are away."""

_log = structlog.get_logger(__name__)

router = APIRouter(tags=["Operation"])


@dataclass(frozen=True, slots=True)
class Waiting:
    """The work that waits in MongoDB: parked commands about reviews and returns, and batches of owed messages."""

    parked_reviews: int
    parked_returns: int
    owed: int


@dataclass(slots=True)
class Gauges:
    """Lag, parked commands, the outbox and the age of the topic of reviews, queried when metrics are read.

    They are the same whichever process asks, and the API is there when no worker is: that lag grows while all
    workers are down has to be seen. What can't be asked for is not told at all, rather than as it once was:
    `lag` and `waiting` are None then.
    """

    services: Services
    standstill: Standstill = field(default_factory=Standstill)
    asked_at: float = float("-inf")
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    lag: Lag | None = None
    waiting: Waiting | None = None

    async def refresh(self) -> None:
        """Ask the servers, unless that was done a moment ago."""
        async with self.asking:
            if monotonic() - self.asked_at < _FRESH_S:
                return
            await asyncio.gather(self._lag(), self._documents())
            self.asked_at = monotonic()

    async def keep_looking(self) -> None:
        """Query at intervals until cancelled, so that a standstill is noticed even if metrics aren't read."""
        while True:
            await self.refresh()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _lag(self) -> None:
        if self.services.lag is None:
            return
        try:
            lag = await self.services.lag.measure()
        except Exception as error:
            if not (isinstance(error, TimeoutError) or is_broker_away(error)):
                _log.exception("Lag can't be measured")
            self.lag = None
            CONSUMER_LAG.clear()
            CONSUMER_STANDSTILL.clear()
            STATE_KNOWN.labels("kafka").set(0)
            return
        self.lag = lag
        for (topic, partition), backlog in lag.items():
            CONSUMER_LAG.labels(topic.value, str(partition)).set(backlog.records)
        self.standstill.observe(lag, monotonic())
        CONSUMER_STANDSTILL.clear()
        for (topic, partition), seconds in self.standstill.seconds().items():
            CONSUMER_STANDSTILL.labels(topic.value, str(partition)).set(seconds)
        STATE_KNOWN.labels("kafka").set(1)

    async def _documents(self) -> None:
        database = self.services.database
        try:
            async with asyncio.timeout(_PATIENCE_S):
                relayed = await RelayProgress(database).relayed_until()
                reviews, returns, owed = await asyncio.gather(
                    *(
                        database[n].estimated_document_count()
                        for n in (PARKED_REVIEWS, PARKED_RETURNS, OUTBOX_COLLECTION)
                    )
                )
        except Exception as error:
            if not (isinstance(error, TimeoutError) or is_database_away(error)):
                raise
            self.waiting = None
            STATE_KNOWN.labels("mongodb").set(0)
            PARKED.clear()
            OUTBOX.set(float("nan"))
            REVIEWS_TOPIC_AGE.set(float("nan"))
            return
        self.waiting = Waiting(reviews, returns, owed)
        PARKED.labels("reviews").set(reviews)
        PARKED.labels("returns").set(returns)
        OUTBOX.set(owed)
        age = (datetime.now(UTC) - relayed).total_seconds() if relayed else float("nan")
        REVIEWS_TOPIC_AGE.set(max(0.0, age))
        STATE_KNOWN.labels("mongodb").set(1)


@router.get("/metrics", response_class=PlainTextResponse)
async def read_metrics(caller: MetricsReader, request: Request) -> Response:
    """All metrics in Prometheus' text format. Not for callers bound to stores: they tell of the traffic of all."""
    check_unbound(caller)
    await request.app.state.gauges.refresh()
    return Response(generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)
