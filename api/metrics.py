"""The endpoint for Prometheus: metrics of this process, and gauges that are read from MongoDB and Kafka."""

import asyncio
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic, time
from typing import Final

import structlog
from fastapi import Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import PlainTextResponse

from api.auth.permissions import MetricsReader
from api.services import Services
from api.stores.bounds import check_unbound
from api.web.openapi import problems
from api.web.problems import ProblemKind
from api.web.routes import routes
from messaging.cron import next_time
from messaging.kafka.connection import is_access_denied, is_broker_away, is_operation_denied
from messaging.kafka.lag import Lag
from messaging.kafka.lag_age import LagAge
from messaging.kafka.standstill import LOOK_EVERY_S, Standstill
from messaging.metrics import (
    CONSUMER_LAG,
    CONSUMER_LAG_AGE,
    CONSUMER_STANDSTILL,
    MAILS_OVERDUE,
    MAILS_OWED,
    OUTBOX,
    OUTBOX_AGE,
    PARKED,
    PARKED_AGE,
    REGISTRY,
    REMINDERS_OVERDUE,
    REMINDERS_RUN,
    REVIEWS_MISSING,
    REVIEWS_TOPIC_AGE,
    SERVER_AWAY,
    STATE_KNOWN,
    UNKNOWN,
)
from messaging.server_errors import for_log
from storage.backlog import Backlog, Waiting, backlog
from storage.database import is_database_away
from storage.leases import Schedule

_FRESH_S: Final = 2.0
"""Seconds for which values from the servers are reused, however many clients ask."""

_PATIENCE_S: Final = 4.0
"""Timeout in seconds of queries: below that of Prometheus, so that our own metrics are served also while the servers
are unavailable."""

_MOST_READ: Final = 12
"""Maximum number of partitions whose oldest record is read at a time: each costs a fetch of 1 MiB."""

log = structlog.get_logger()

router: Final = routes("", "Operation")


@dataclass(slots=True)
class Gauges:
    """Lag and its age, parked commands, owed and overdue work, queried when metrics are read.

    The values are the same in all processes, and the API runs even if no worker does: growing lag must be visible while
    all workers are down. Values that can't be queried are dropped, not left stale: `lag` and `backlog` are None then.
    """

    services: Services
    standstill: Standstill = field(default_factory=Standstill)
    age: LagAge = field(default_factory=LagAge)
    asked_at: float = float("-inf")
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    lag: Lag | None = None
    is_refused: bool = False
    """True once it is logged that Kafka denies access to the lag, until access is granted."""

    backlog: Backlog | None = None

    async def refresh(self) -> None:
        """Query the servers, unless that was done less than _FRESH_S seconds ago."""
        async with self.asking:
            if monotonic() - self.asked_at < _FRESH_S:
                return
            await asyncio.gather(self._refresh_lag(), self._refresh_backlog())
            self.asked_at = monotonic()

    async def keep_looking(self) -> None:
        """Query at intervals until cancelled, so that a standstill is noticed even if metrics aren't read."""
        while True:
            await self.refresh()
            await self._read_times()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _refresh_lag(self) -> None:
        if self.services.lag is None:
            return
        try:
            lag = await self.services.lag.measure()
        except Exception as error:
            if is_access_denied(error) and not self.is_refused:
                log.warning("Lag can't be measured", error=for_log(error))
                self.is_refused = True
            elif not is_broker_away(error):
                log.exception("Lag can't be measured")
            self.lag = None
            for gauge in (CONSUMER_LAG, CONSUMER_LAG_AGE, CONSUMER_STANDSTILL):
                gauge.clear()
            _note_state("kafka", is_known=False, is_away=is_broker_away(error) and not is_operation_denied(error))
            return
        self.lag, self.is_refused = lag, False
        self.standstill.observe(lag, monotonic())
        self.age.observe(lag, time())
        records = {place: unread.records for place, unread in lag.items()}
        for gauge, values in (
            (CONSUMER_LAG, records),
            (CONSUMER_STANDSTILL, self.standstill.seconds()),
            (CONSUMER_LAG_AGE, self.age.seconds()),
        ):
            gauge.clear()
            for (topic, partition), each in values.items():
                gauge.labels(topic.value, str(partition)).set(each)
        _note_state("kafka", is_known=True)

    async def _read_times(self) -> None:
        """Read the times of oldest records that were written before this process started."""
        partitions = list(self.age.unknown().items())
        if self.services.lag is None or not partitions:
            return
        offsets = dict(random.sample(partitions, min(_MOST_READ, len(partitions))))
        try:
            self.age.note_timestamps(offsets, await self.services.lag.times(offsets))
        except Exception as error:
            if not is_broker_away(error):
                log.exception("The age of the lag can't be measured")

    async def _refresh_backlog(self) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                self.backlog = await backlog(self.services.database)
        except Exception as error:
            is_away = isinstance(error, TimeoutError) or is_database_away(error)
            if not is_away:
                # Any other error is logged, and the query repeated at the next refresh.
                log.exception("The backlog in the database can't be measured")
            self.backlog = None
            _note_state("mongodb", is_known=False, is_away=is_away)
        else:
            _note_state("mongodb", is_known=True)
        _set_gauges(self.backlog, datetime.now(UTC))


def _note_state(what: str, *, is_known: bool, is_away: bool = False) -> None:
    """Export whether the state of a server is known; `is_away`: unknown because the server can't be used at all."""
    STATE_KNOWN.labels(what).set(is_known)
    SERVER_AWAY.labels(what).set(is_away)


def _set_gauges(found: Backlog | None, now: datetime) -> None:
    """Set the gauges of the backlog in the database; an unknown value has no sample, or is NaN."""
    PARKED.clear()
    PARKED_AGE.clear()
    for kind, parked in found.parked.items() if found else ():
        PARKED.labels(kind).set(parked.documents)
        PARKED_AGE.labels(kind).set(_age_s(parked, now))
    OUTBOX.set(found.owed.documents if found else UNKNOWN)
    OUTBOX_AGE.set(_age_s(found.owed, now) if found else UNKNOWN)
    MAILS_OWED.set(found.mails.documents if found else UNKNOWN)
    MAILS_OVERDUE.set(_age_s(found.mails, now) if found else UNKNOWN)
    relayed = found.relayed.until if found else None
    REVIEWS_TOPIC_AGE.set(max(0.0, (now - relayed).total_seconds()) if relayed else UNKNOWN)
    REVIEWS_MISSING.set(found.relayed.missing if found else UNKNOWN)
    schedule = found.reminders if found else None
    REMINDERS_RUN.set(schedule.done.timestamp() if schedule else UNKNOWN)
    REMINDERS_OVERDUE.set(_overdue_s(schedule, now) if schedule else UNKNOWN)


def _age_s(waiting: Waiting, now: datetime) -> float:
    return max(0.0, (now - waiting.since).total_seconds()) if waiting.since else 0.0


def _overdue_s(schedule: Schedule, now: datetime) -> float:
    if schedule.cron is None:
        return 0.0
    return max(0.0, (now - next_time(schedule.cron, max(schedule.since, schedule.done))).total_seconds())


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses=problems(ProblemKind.VALIDATION, ProblemKind.UNAVAILABLE),
)
async def read_metrics(caller: MetricsReader, request: Request) -> Response:
    """All metrics in Prometheus' text format. Not for callers bound to stores: they reveal the traffic of all
    stores."""
    check_unbound(caller)
    await request.app.state.gauges.refresh()
    return Response(generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)
