"""The health of the service: its checks, and remedies for those that fail."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from console.screens import Screens
from console.visits import Visit
from domain.permissions import Permission

screens = Screens()


@screens.get("/health", Permission.READ_METRICS)
async def health(visit: Visit) -> Response:
    """A summary, then the checks, failed ones first, then the figures."""
    found = await visit.facade.ask("GET", "/api/health/details")
    order = ("fail", "warn", "ok")
    checks = sorted(found["checks"], key=lambda check: order.index(check["level"]))
    return visit.page("health.html", health=found, checks=checks, sentence=_sentence(checks))


def _sentence(checks: Sequence[Mapping[str, Any]]) -> str:
    failed = [check["check"] for check in checks if check["level"] == "fail"]
    warned = [check["check"] for check in checks if check["level"] == "warn"]
    if failed:
        return f"These checks fail: {', '.join(dict.fromkeys(failed))}."
    if warned:
        return f"The service works, with warnings: {', '.join(dict.fromkeys(warned))}."
    return "All checks pass."
