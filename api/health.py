"""Endpoints for operation: liveness and readiness."""

import asyncio
from collections.abc import Awaitable, Collection, Mapping
from typing import Final, NotRequired, TypeVar

import structlog
from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from api.services import Services
from api.web.openapi import OPEN_TO_ALL, problems
from api.web.problems import ProblemKind, unavailable
from api.web.responses import JsonResponse
from api.web.shared_queries import SharedQueries
from messaging.server_errors import for_log
from messaging.topics import Topic

CHECK_SECONDS: Final = 2.0

COMMANDS: Final = (
    *(Topic.REVIEW_SUBMISSIONS, Topic.MODERATION_COMMANDS, Topic.REVIEW_CHANGES, Topic.REVIEW_CLAIMS),
    *(Topic.REVIEW_FEEDBACK, Topic.IMAGE_UPLOADS, Topic.IMAGE_COMMANDS, Topic.RETURN_COMMANDS, Topic.STORE_UPDATES),
    *(Topic.REMINDER_COMMANDS, Topic.DEAD_LETTER_COMMANDS, Topic.ENDED_SESSIONS),
)
"""The topics that a facade publishes to."""

T = TypeVar("T")

log = structlog.get_logger()


class Alive(TypedDict):
    """The process answers."""

    status: str


class Ready(Alive):
    """Queries (`reads`) or commands are served. `warn`: one of them isn't, or a partition makes no progress."""

    reads: str
    commands: str
    checks: dict[str, str]
    standstill: NotRequired[list[str]]


class Readiness:
    """Checks both servers. Concurrent requests share one check, as the endpoint is open to all."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._checks = SharedQueries(self._check)

    def can_publish(self) -> bool:
        """True if this process has learnt from MongoDB how topics are divided."""
        return self._services.publisher.partition_counts.were_ever_known()

    async def seen(self) -> tuple[bool, list[str] | None]:
        """True if MongoDB responds; and the missing topics, None if Kafka doesn't respond."""
        return (await self._checks.of([None]))[None]

    async def _check(self, _: Collection[None]) -> Mapping[None, tuple[bool, list[str] | None]]:
        topics = [self._services.topics.name(topic) for topic in COMMANDS]
        pinged, missing = await asyncio.gather(
            _result_of("mongodb", self._services.database.command("ping")),
            _result_of("kafka", self._services.publisher.missing(topics)),
        )
        if missing:
            log.warning("Not ready: topics are missing", topics=missing, advice="`plaudit init` creates them")
        return {None: (pinged is not None, missing)}


router = APIRouter(prefix="/health", tags=["Operation"], responses=problems())


@router.get("/live", operation_id="readLiveness", response_model=Alive, openapi_extra=OPEN_TO_ALL)
async def live() -> JsonResponse:
    """Liveness: the process answers."""
    return JsonResponse({"status": "pass"})


@router.get(
    "/ready",
    operation_id="readReadiness",
    response_model=Ready,
    responses=problems(ProblemKind.UNAVAILABLE),
    openapi_extra=OPEN_TO_ALL,
)
async def ready(request: Request) -> JsonResponse:
    """Readiness: queries can be answered, which takes MongoDB, or commands accepted, which takes Kafka, and MongoDB at
    the start of the process and where the rules of a store require it. 503 if neither."""
    readiness: Readiness = request.app.state.readiness
    reads, missing = await readiness.seen()
    commands = missing == [] and (reads or readiness.can_publish())
    checks = {"mongodb": _state(reads), "kafka": _state(missing is not None)} | ({"topics": "fail"} if missing else {})
    answer = {"reads": _state(reads), "commands": _state(commands), "checks": checks}
    if not (reads or commands):
        raise unavailable("MongoDB and Kafka", answer)
    # The facade still serves, so it stays ready; the workers of stalled partitions don't.
    stalled = request.app.state.gauges.standstill.describe()
    if stalled:
        answer |= {"checks": checks | {"consumers": "warn"}, "standstill": stalled}
    return JsonResponse({"status": "pass" if reads and commands and not stalled else "warn", **answer})


async def _result_of(name: str, check: Awaitable[T]) -> T | None:
    """The response of a server; None if it fails, or takes more than CHECK_SECONDS."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check
    except Exception as error:
        log.warning("Not ready", away=name, error=for_log(error))
        return None


def _state(passed: bool) -> str:
    return "pass" if passed else "fail"
