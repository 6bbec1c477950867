"""Exactly once, counted: one event for each change in the model, one audit entry for each decision.

Events are published at least once, and a repeat has the same id: distinct ids are counted. Where the model doesn't know
each decision, as rules make some, events and audit log must agree. Edits, replies, reports and refused returns have
bounds: one that meets the deletion of its subject may be too late.
"""

import json
from collections import Counter
from collections.abc import Iterable, Set
from typing import Any, Final, Literal, NamedTuple

from tests.chaos.model import IMPORT_STORE, RULED_STORE, STATUS_AFTER, Feedback, Json, Model
from tests.chaos.model_returns import NOT_AVAILABLE, UNKNOWN_RETURN
from tests.chaos.outcomes import ID_TAKEN
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
    "ReviewEdited": "edit",
    "ReviewReplied": "reply",
    "ReviewReported": "report",
    "ReturnRefused": "refuse",
}
"""Action of each counted kind of event."""

BOUNDED: Final = ("edit", "reply", "report", "refuse")
"""Actions with a minimum and a maximum of events."""

DECISIONS: Final = tuple(STATUS_AFTER)
RESTORE: Final = "restore"
"""The action in the audit log of a past, which has the event of the status that it restores."""

AUDITED: Final = (*DECISIONS, "delete")
"""Counted actions in the audit log."""

RULING_STORES: Final = (RULED_STORE, IMPORT_STORE)
"""Stores whose reviews are approved by rules, verdicts and pasts, too: the model doesn't know how often a review there
was approved, rejected or reset."""

RETURN_REFUSALS: Final = {NOT_AVAILABLE.reason, UNKNOWN_RETURN, ID_TAKEN.reason}
"""Reasons of expected outcomes with a ReturnRefused event."""

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
    counted = [*AUDITED, RESTORE]
    pipeline: list[Json] = [{"$match": {"action": {"$in": counted}}}, {"$group": {"_id": group, "count": {"$sum": 1}}}]
    async with service.mongo() as database:
        counts = await database["auditLog"].aggregate(pipeline)
        return Counter({(each["_id"]["id"], each["_id"]["action"]): each["count"] async for each in counts})


def wrong_events(model: Model, found: Counter[Change], winners: Set[str], *, is_mixed: bool) -> list[Miscount]:
    """Changes without exactly one event each. `winners`: the stored ones of competing reviews; `is_mixed`: the version
    before took part, which announces updates of returns without a change."""
    expected = model.applied + Counter({(id, "submit"): 1 for id in model.reviews.keys() | winners})
    # Which of the competing returns are granted is open.
    expected += Counter({(id, "create"): 1 for id in model.rushed() if found[id, "create"]})
    uncounted = {*BOUNDED, *(["update"] if is_mixed else [])}
    is_counted = {change for change in found.keys() | expected.keys() if change[1] not in uncounted}
    return _wrong(model, found, expected, is_counted, "events")


def wrong_entries(model: Model, found: Counter[Change]) -> list[Miscount]:
    """Changes without exactly one entry each in the audit log, which also has decisions that only closed reports."""
    expected = Counter({change: n for change, n in model.applied.items() if change[1] in AUDITED}) + model.closings
    counted = {change for change in found.keys() | expected.keys() if change[1] != RESTORE}
    return _wrong(model, found, expected, counted, "entries in the audit log")


def contradictions(model: Model, events: Counter[Change], entries: Counter[Change]) -> list[Miscount]:
    """Reviews with another number of events about decisions than of entries in the audit log, whoever decided. A
    decision in `model.closings` has no event; a past that changed the status has the event of the new one."""
    wrong = list[Miscount]()
    changes = events.keys() | entries.keys() | model.closings.keys()
    for id in sorted({id for id, action in changes if action in (*DECISIONS, RESTORE)}):
        more = {each: events[id, each] + model.closings[id, each] - entries[id, each] for each in DECISIONS}
        restored = entries[id, RESTORE]
        what = f"events of decisions minus entries in the audit log: {more}; {restored} pasts restored"
        if sum(more.values()) < restored or min(more.values()) < 0:
            wrong.append(Miscount("lost", id, what))
        elif sum(more.values()) > restored:
            wrong.append(Miscount("duplicated", id, what))
    return wrong


def misannounced(model: Model, found: Counter[Change]) -> list[Miscount]:
    """Edits, replies and reports of which the stored review shows more than there are events, or that have more events
    than commands."""
    least = Counter[Change]()
    for id, _ in model.living():
        feedback = model.feedback.get(id, Feedback())
        least[id, "edit"] = int(id in model.edited)
        least[id, "reply"] = int(feedback.reply is not None)
        least[id, "report"] = feedback.reports
    wrong = list[Miscount]()
    for id, action in sorted(change for change in found | least | model.sent if change[1] in BOUNDED[:-1]):
        actual, minimum, maximum = found[id, action], least[id, action], model.sent[id, action]
        what = f"{actual} events of {action}, expected {minimum} to {maximum}"
        if actual < minimum:
            wrong.append(Miscount("lost", id, what))
        elif actual > maximum:
            wrong.append(Miscount("duplicated" if maximum else "wrong", id, what))
    return wrong


def wrong_refused_returns(model: Model, found: Counter[Change]) -> list[Miscount]:
    """Refused returns without an event, and created ones with an event although no command on them was refused.

    A refusal that the API gives at once has no event.
    """
    required = {id for (_, id), each in model.outcomes.expected.items() if each.reason in RETURN_REFUSALS}
    required |= {id for id in model.rushed() if not found[id, "create"]}
    unrefused = model.return_requests.keys() - model.refused_returns
    refused = {id for id, action in found if action == "refuse"}
    return [
        *(Miscount("lost", id, "no ReturnRefused event") for id in sorted(required - refused)),
        *(Miscount("wrong", id, "unexpected ReturnRefused event") for id in sorted(refused & unrefused)),
    ]


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
