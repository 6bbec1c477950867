"""The audit log, by filters that are addresses, and its export."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from console.facade import Refused
from console.parameters import choice
from console.screens import ROWS, Screens
from console.visits import Visit
from domain.permissions import Permission

MOST_EXPORTED: Final = 10_000
_NUMBER: Final = re.compile("[0-9]{1,9}")
_KINDS: Final = ("review", "return", "store", "settings", "template", "letter")

screens = Screens()


@screens.get("/audit", Permission.READ_AUDIT)
async def audit(visit: Visit) -> Response:
    """A page of the log, the newest entry first, without a count."""
    skipped = visit.query.get("after", "0")
    if not _NUMBER.fullmatch(skipped):
        raise Refused(422, {"detail": f"{skipped[:40]} is no number of entries. Begin with the newest ones."})
    skip = int(skipped)
    page = {"take": ROWS + 1, "skip": skip, "withTotal": "false"}
    found = await visit.facade.ask("GET", "/api/audit", query={**_criteria(visit.query), **page})
    rows = found["results"]
    return visit.page(
        "audit.html",
        rows=rows[:ROWS],
        next=skip + ROWS if len(rows) > ROWS else None,
        kinds=_KINDS,
        most=MOST_EXPORTED,
    )


@screens.get("/audit/export", Permission.READ_AUDIT)
async def export(visit: Visit) -> Response:
    """The newest entries that match, as a file."""
    format = choice(visit.query, "format", ("csv", "jsonl"), "csv", noun="format")
    query = {**_criteria(visit.query), "format": format, "take": MOST_EXPORTED}
    content, kind = await visit.facade.content("/api/audit/export", query)
    headers = {"Content-Disposition": f'attachment; filename="audit.{format}"'}
    return Response(content, media_type=kind, headers=headers)


def _criteria(query: Mapping[str, str]) -> dict[str, Any]:
    """The search that the parameters of an address stand for; days are whole ones, in UTC."""
    since, until = query.get("since"), query.get("until")
    return {
        "kind": query.get("kind"),
        "subject": query.get("subject"),
        "action": query.get("action"),
        "storeId": query.get("store"),
        "reviewId": query.get("review"),
        "since": f"{since}T00:00:00Z" if since else None,
        "until": f"{until}T23:59:59.999Z" if until else None,
    }
