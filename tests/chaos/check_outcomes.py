"""Checks that each acknowledged command has one outcome of the right kind, as it is stored and as the API shows it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set

from tests.chaos.actors import RETURNS
from tests.chaos.clients import Http
from tests.chaos.difference import Difference
from tests.chaos.model import ONE_EACH_STORE, Model
from tests.chaos.outcomes import APPLIED, UNCHANGED, Item, Outcome, Outcomes
from tests.chaos.reading import pages
from tests.chaos.rules import SEARCH
from tests.support.service import Service

SHOWN = 200
"""Number of commands whose outcomes are also compared as the API shows them."""


async def wrong_commands(http: Http, service: Service, model: Model, *, is_mixed: bool) -> list[Difference]:
    """Acknowledged commands without the expected outcomes, stored or shown. `is_mixed`: the version before took part,
    which may call a command without an effect applied."""
    stored = await stored_outcomes(service)
    winners = {row["id"] async for row in pages(http, SEARCH, storeId=ONE_EACH_STORE, sort="createdDate:asc")}
    winners |= {row["id"] async for row in pages(http, f"{RETURNS}/search")}
    gone = {id for id, review in model.reviews.items() if review.status is None} | model.deleted_images
    wrong = wrong_outcomes(model.outcomes, stored, gone, winners, is_mixed=is_mixed)
    return [*wrong, *await wrong_shown(http, model.outcomes, stored)]


def wrong_outcomes(
    outcomes: Outcomes, stored: Mapping[Item, Outcome], gone: Set[str], winners: Set[str], *, is_mixed: bool = False
) -> list[Difference]:
    """Items of acknowledged commands without an outcome or with another one, and outcomes of commands that no client
    knows to have been accepted, unless they refuse it. `is_mixed`: the version before took part, which may call a
    command without an effect applied."""
    wrong = list[Difference]()
    for item in sorted(outcomes.expected.keys() | outcomes.if_lost.keys() | stored.keys()):
        command_id, id = item
        actual, allowed = stored.get(item), outcomes.allowed(item, gone, winners)
        allowed |= {APPLIED} if is_mixed and UNCHANGED in allowed else set()
        what = f"outcome {actual} of command {command_id}, expected {sorted(allowed, key=str)}"
        if actual is None:
            wrong.append(Difference("lost", id, what))
        elif allowed and actual not in allowed:
            wrong.append(Difference("wrong", id, what))
        elif not allowed and actual.outcome not in ("refused", "not-found"):
            wrong.append(Difference("wrong", id, f"{what}: nobody knows of this command"))
    return wrong


async def wrong_shown(http: Http, outcomes: Outcomes, stored: Mapping[Item, Outcome]) -> list[Difference]:
    """Commands that `GET /api/commands/{id}` shows otherwise than they are stored: SHOWN of them, of all ages."""
    commands: dict[str, dict[str, Outcome]] = defaultdict(dict)
    for (command_id, id), outcome in stored.items():
        commands[command_id][id] = outcome
    unfinished = {command_id for command_id, _ in outcomes.waiting}
    known = sorted({command_id for command_id, _ in outcomes.expected if command_id in commands} - unfinished)
    wrong = list[Difference]()
    for command_id in known[:: max(1, len(known) // SHOWN)]:
        answer = await http.send("GET", f"/api/commands/{command_id}")
        results = answer.body.get("results", ())
        shown = [(each["id"], Outcome(each["outcome"], each.get("reason"))) for each in results]
        expected = sorted(commands[command_id].items())
        summary = (answer.status, answer.body.get("outcome"), sorted(shown))
        if summary != (200, whole([outcome for _, outcome in expected]), expected):
            what = f"command {command_id} is shown as {summary}, its outcomes are {expected}"
            wrong.append(Difference("wrong", expected[0][0], what))
    return wrong


def whole(outcomes: Sequence[Outcome]) -> str:
    """The outcome of a whole command."""
    successful = [each.outcome in ("applied", "unchanged") for each in outcomes]
    return "applied" if all(successful) else "partial" if any(successful) else "refused"


async def stored_outcomes(service: Service) -> dict[Item, Outcome]:
    async with service.mongo() as database:
        found = database["outcomes"].find({}, {"outcome": True, "reason": True})
        return {item_in(each["_id"]): Outcome(each["outcome"], each["reason"]) async for each in found}


def item_in(key: str) -> Item:
    """The command and the item in the key of a stored outcome: the item begins after the first slash."""
    command_id, _, id = key.partition("/")
    return command_id.replace("%2F", "/").replace("%25", "%"), id
