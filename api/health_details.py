"""The endpoint of the service's health, part by part, with advice."""

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Final

import structlog
from fastapi import Request
from typing_extensions import TypedDict

from api.auth.permissions import MetricsReader
from api.metrics import Gauges
from api.services import Services
from api.stores.bounds import check_unbound
from api.web.responses import JsonResponse
from api.web.routes import routes
from domain.findings import Finding, Level, failed, ok
from domain.timestamps import timestamp
from messaging.kafka.checks import MOST_SETTLED
from messaging.kafka.connection import is_broker_away
from messaging.schemas import ShownMoment
from messaging.server_errors import for_log
from storage.backlog import Backlog
from storage.checks import check_mongo
from storage.database import is_database_away, result_or_default

_FRESH_S: Final = 5.0
"""Seconds for which a result is reused: some checks count documents."""

_LATELY_S: Final = 300.0
"""Seconds for which a failed check counts, without another look: it may be repaired by then."""

_PATIENCE_S: Final = 8.0
"""Timeout in seconds of the checks of one server."""

log = structlog.get_logger()


class TopicLag(TypedDict):
    """The consumer lag of a topic, in records. `group`: the consumer group, which is named as the topic is in Kafka.
    `standsForSeconds`: the longest time that one of its partitions has made no progress despite a backlog."""

    topic: str
    group: str
    records: int
    standsForSeconds: int


class Parked(TypedDict):
    """The numbers of parked commands, which wait for what they refer to."""

    reviews: int
    returns: int
    verdicts: int


class HealthCheck(TypedDict):
    """One check: its result, and advice if it isn't ok."""

    check: str
    level: Level
    text: str
    advice: str


class Health(TypedDict):
    """The health of the service: the worst level of its checks, then each part; null if it is unknown. `outbox`:
    batches of messages not published yet. `at`: the time of the checks."""

    at: ShownMoment
    level: Level
    lag: list[TopicLag] | None
    parked: Parked | None
    outbox: int | None
    checks: list[HealthCheck]


@dataclass(slots=True)
class Examination:
    """The health of the service, examined on request, but at most once in a few seconds."""

    services: Services
    gauges: Gauges
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    latest: Health | None = None
    asked_at: float = 0.0

    async def health(self) -> Health:
        """The health, at most _FRESH_S seconds old."""
        async with self.asking:
            if self.latest is None or monotonic() - self.asked_at >= _FRESH_S:
                self.latest = await self._examine()
                self.asked_at = monotonic()
            return self.latest

    def has_failed_lately(self) -> bool:
        """True if a check failed when they were last made, at most _LATELY_S seconds ago. Makes none."""
        is_recent = monotonic() - self.asked_at < _LATELY_S
        return is_recent and self.latest is not None and self.latest["level"] is Level.FAIL

    async def _examine(self) -> Health:
        await self.gauges.refresh()
        parts = await asyncio.gather(
            _findings_on("mongodb", self._mongo(), "Start MongoDB, or correct PLAUDIT_MONGO__URI."),
            _findings_on("kafka", self._kafka(), "Start it, or correct PLAUDIT_KAFKA__BOOTSTRAP_SERVERS."),
        )
        findings = [finding for part in parts for finding in part] + [self._progress()]
        backlog = self.gauges.backlog
        return {
            "at": timestamp(datetime.now(UTC)),
            "level": _worst(findings),
            "lag": self._lag(),
            "parked": _parked(backlog) if backlog else None,
            "outbox": backlog.owed.documents if backlog else None,
            "checks": [{"check": f.check, "level": f.level, "text": f.text, "advice": f.advice} for f in findings],
        }

    async def _mongo(self) -> list[Finding]:
        examined = self.services.examination
        days = examined.expected.remember_days if examined else 0
        return [finding async for finding in check_mongo(self.services.database, days)]

    async def _kafka(self) -> list[Finding]:
        examined = self.services.examination
        if examined is None:
            return []
        settled_letters = await result_or_default(self.services.replays.settled(MOST_SETTLED + 1), None)
        return await examined.findings(self.gauges.lag, settled_letters)

    def _progress(self) -> Finding:
        stalled = self.gauges.standstill.describe()
        if stalled:
            return failed("progress", "; ".join(stalled), "The log of the workers says what they wait for.")
        return ok("progress", "every partition makes progress")

    def _lag(self) -> list[TopicLag] | None:
        lag = self.gauges.lag
        if lag is None:
            return None
        seconds = self.gauges.standstill.seconds()
        rows: list[TopicLag] = []
        for topic in sorted({topic for topic, _ in lag}):
            partitions = [partition for partition in lag if partition[0] is topic]
            rows.append(
                {
                    "topic": topic,
                    "group": self.services.topics.name(topic),
                    "records": sum(lag[partition].records for partition in partitions),
                    "standsForSeconds": int(max(seconds.get(partition, 0.0) for partition in partitions)),
                }
            )
        return rows


router: Final = routes("/api/health", "Operation")


@router.get("/details", response_model=Health)
async def read_health(caller: MetricsReader, request: Request) -> JsonResponse:
    """Lag, parked commands, the outbox, and the checks of `plaudit doctor` that the API can run. An unavailable server
    is a failed check, and values that only it has are null."""
    check_unbound(caller)
    examination: Examination = request.app.state.examination
    return JsonResponse(await examination.health())


async def _findings_on(server: str, checks: Awaitable[list[Finding]], advice: str) -> list[Finding]:
    """The findings on a server; a single failure if it is unavailable or too slow."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await checks
    except Exception as error:
        if not (isinstance(error, TimeoutError) or is_broker_away(error) or is_database_away(error)):
            raise
        log.warning("Not checked", away=server, error=for_log(error))
        return [failed(server, f"does not answer ({type(error).__name__})", advice)]


def _parked(backlog: Backlog) -> Parked:
    count = {kind: of_kind.documents for kind, of_kind in backlog.parked.items()}
    return {"reviews": count["reviews"], "returns": count["returns"], "verdicts": count["verdicts"]}


def _worst(findings: Iterable[Finding]) -> Level:
    levels = {finding.level for finding in findings}
    return next((level for level in (Level.FAIL, Level.WARN) if level in levels), Level.OK)
