"""Exactly once, counted: one event for each change in the model, one audit entry for each decision.

Events are published at least once, and a repeat has the same id: distinct ids are counted.
"""

import json
from collections import Counter
from collections.abc import Iterable, Set
from typing import Any, Final, Literal, NamedTuple

from tests.chaos.model import IMPORT_STORE, RULED_STORE, Json, Model
from tests.support.service import Service, kind_of

Change = tuple[str, str]
"""The id of a review or return, and the action that changed it."""

ACTIONS: Final = {
    "ReviewSubmitted": "submit",
    "ReviewApproved": "approve",
    "ReviewRejected": "reject",
    "ReviewReset": "reset",
    "ReviewDeleted": "delete",
    "ReturnCreated": "create",
    "ReturnChanged": "update",
    "ReturnDeleted": "delete",
}
"""Action of each counted kind of event."""

AUDITED: Final = ("approve", "reject", "reset", "delete")
"""Counted actions in the audit log. Edits and replies aren't: one that meets the deletion of its review may be too
late."""

RULING_STORES: Final = (RULED_STORE, IMPORT_STORE)
"""Stores whose reviews are approved by rules, verdicts and pasts, too: of decisions there, only deletions are
counted."""


MiscountKind = Literal["lost", "duplicated", "wrong"]


class Miscount(NamedTuple):
    """A change that was announced or logged more or less often than it was applied."""

    kind: MiscountKind
    id: str
    what: str


def announced(records: Iterable[Any]) -> Counter[Change]:
    """The number of events with ids of their own for each change."""
    distinct = set[tuple[str, str, str]]()
    for record in records:
        if action := ACTIONS.get(kind_of(record)):
            about, event_id = json.loads(record.value), dict(record.headers)["ce_id"].decode()
            distinct.add((about.get("reviewId") or about["returnId"], action, event_id))
    return Counter((id, action) for id, action, _ in distinct)


async def logged(service: Service) -> Counter[Change]:
    """The number of entries in the audit log for each change."""
    group: Json = {"id": {"$ifNull": ["$reviewId", "$returnId"]}, "action": "$action"}
    pipeline: list[Json] = [{"$match": {"action": {"$in": AUDITED}}}, {"$group": {"_id": group, "count": {"$sum": 1}}}]
    async with service.mongo() as database:
        counts = await database["auditLog"].aggregate(pipeline)
        return Counter({(each["_id"]["id"], each["_id"]["action"]): each["count"] async for each in counts})


def wrong_events(model: Model, found: Counter[Change], winners: Set[str], *, is_mixed: bool) -> list[Miscount]:
    """Changes without exactly one event each. `winners`: the stored ones of competing reviews; `is_mixed`: the version
    before took part, which announces updates of returns without a change."""
    expected = model.applied + Counter({(id, "submit"): 1 for id in model.reviews.keys() | winners})
    # Which of the competing returns are granted is open.
    expected += Counter({(id, "create"): 1 for id in model.rushed() if found[id, "create"]})
    is_counted = {change for change in found.keys() | expected.keys() if not (is_mixed and change[1] == "update")}
    return _wrong(model, found, expected, is_counted, "events")


def wrong_entries(model: Model, found: Counter[Change]) -> list[Miscount]:
    """Changes without exactly one entry each in the audit log, which also has decisions that only closed reports."""
    expected = Counter({change: n for change, n in model.applied.items() if change[1] in AUDITED}) + model.closings
    return _wrong(model, found, expected, found.keys() | expected.keys(), "entries in the audit log")


def _wrong(
    model: Model, found: Counter[Change], expected: Counter[Change], changes: Set[Change], what: str
) -> list[Miscount]:
    wrong = list[Miscount]()
    for id, action in sorted(changes):
        actual, wanted = found[id, action], expected[id, action]
        review = model.reviews.get(id)
        is_open = review is not None and review.store in RULING_STORES and action not in ("submit", "delete")
        if actual != wanted and not is_open:
            kind: MiscountKind = "lost" if actual < wanted else "duplicated" if wanted else "wrong"
            wrong.append(Miscount(kind, id, f"{actual} {what} of {action}, expected {wanted}"))
    return wrong
