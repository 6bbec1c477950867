"""Endpoints for operation: is the process alive, can it serve?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, NotRequired

import structlog
from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from api.services import Injected
from api.web.documents import OPEN_TO_ALL, problems
from api.web.problems import ProblemKind, unavailable
from api.web.responses import JsonResponse

CHECK_SECONDS: Final = 2.0

_log = structlog.get_logger(__name__)


class Alive(TypedDict):
    """The process answers."""

    status: str


class Ready(Alive):
    """Queries (`reads`) or commands are served. `warn`: one of the two isn't, or a partition makes no progress."""

    reads: str
    commands: str
    checks: dict[str, str]
    standstill: NotRequired[list[str]]


router = APIRouter(prefix="/health", tags=["Operation"])


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
async def ready(services: Injected, request: Request) -> JsonResponse:
    """Readiness: queries are answered, for which MongoDB is enough, or commands are taken, for which Kafka is, where no
    rule of a store asks for more. 503 where neither is."""
    checks = {"mongodb": services.database.command("ping"), "kafka": services.publisher.ping()}
    passed = await asyncio.gather(*(_passes(name, check) for name, check in checks.items()))
    shown = {name: "pass" if ok else "fail" for name, ok in zip(checks, passed, strict=True)}
    answer = {"reads": shown["mongodb"], "commands": shown["kafka"], "checks": shown}
    if not any(passed):
        raise unavailable("MongoDB and Kafka", answer)
    # The facade answers queries, so it stays ready; the workers whose partitions stand don't.
    standing = request.app.state.gauges.standstill.describe()
    if standing:
        answer |= {"checks": shown | {"consumers": "warn"}, "standstill": standing}
    return JsonResponse({"status": "pass" if all(passed) and not standing else "warn", **answer})


async def _passes(name: str, check: Awaitable[Any]) -> bool:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await check
    except Exception as error:
        _log.warning("Not ready", away=name, error=repr(error))
        return False
    return True
