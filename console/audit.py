"""The audit log with filters in the address, and its export."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.responses import Response

from console.api_client import Refused
from console.parameters import choice
from console.screens import ROWS, Screens
from console.visits import Visit
from domain.permissions import Permission

MOST_EXPORTED: Final = 10_000
_POSITION: Final = re.compile(r"([0-9]{1,9})(?:_([0-9TZ:.-]{1,40}))?")
"""A position in the log: the number of entries to skip, from the newest one or from a timestamp backwards."""

_KINDS: Final = ("review", "return", "store", "settings", "template", "letter")

screens = Screens()


@screens.get("/audit", Permission.READ_AUDIT)
async def audit(visit: Visit) -> Response:
    """A page of the log, newest entries first, without a total."""
    after = visit.query.get("after", "0")
    position = _POSITION.fullmatch(after)
    if not position:
        raise Refused(422, {"detail": f"{after[:40]} is not a number of entries. Start with the newest ones."})
    skip, until = int(position[1]), position[2]
    query = {**_criteria(visit.query), "take": ROWS + 1, "skip": skip, "withTotal": "false"}
    if until:
        query["until"] = until
    found = await visit.facade.ask("GET", "/api/audit", query=query)
    rows = found["results"][:ROWS]
    return visit.page(
        "audit.html",
        rows=rows,
        next=_position_after(rows, skip, until) if len(found["results"]) > ROWS else None,
        kinds=_KINDS,
        most=MOST_EXPORTED,
    )


@screens.get("/audit/export", Permission.READ_AUDIT)
async def export(visit: Visit) -> Response:
    """The newest matching entries as a file."""
    format = choice(visit.query, "format", ("csv", "jsonl"), "csv", noun="format")
    query = {**_criteria(visit.query), "format": format, "take": MOST_EXPORTED}
    content, kind = await visit.facade.content("/api/audit/export", query)
    headers = {"Content-Disposition": f'attachment; filename="audit.{format}"'}
    return Response(content, media_type=kind, headers=headers)


def _position_after(rows: Sequence[Mapping[str, Any]], skip: int, until: str | None) -> str:
    """The position after the rows of a page. Entries written later don't shift it."""
    last = rows[-1]["at"]
    same = sum(row["at"] == last for row in rows)
    return f"{same + (skip if last == until else 0)}_{last}"


def _criteria(query: Mapping[str, str]) -> dict[str, Any]:
    """The search for these query parameters; days are whole days in UTC."""
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
