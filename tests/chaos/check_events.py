"""Checks the events of reviews, returns and ratings: what they announce, and that each change has exactly one. Checks
the audit log, too, which must have the same decisions."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set

from tests.chaos.clients import Http
from tests.chaos.difference import Difference
from tests.chaos.exactly_once import (
    announced,
    contradictions,
    logged,
    misannounced,
    wrong_entries,
    wrong_refused_returns,
)
from tests.chaos.exactly_once import wrong_events as miscounted_events
from tests.chaos.model import ONE_EACH_STORE, Json, Model
from tests.chaos.reading import pages
from tests.chaos.rules import SEARCH
from tests.support.ratings import histogram
from tests.support.service import Service, kind_of

CLOSED, TAKEN, SECOND = REFUSALS = ("reviews-disabled", "id-taken", "duplicate-review")
"""Reasons of `SubmissionRefused` events."""

REVIEW_EVENTS = ("ReviewSubmitted", "ReviewApproved", "ReviewRejected", "ReviewDeleted")
RETURN_EVENTS = ("ReturnCreated", "ReturnDeleted")


async def wrong_events(http: Http, service: Service, model: Model, *, is_mixed: bool) -> list[Difference]:
    """Events announce every refusal, every current rating, and the fate of reviews and returns; the audit log has each
    decision. A repeat is no difference."""
    entries = await logged(service)
    events: dict[str, list[Json]] = defaultdict(list)
    records = await service.records("events")
    for record in records:
        events[kind_of(record)].append(json.loads(record.value))
    stored = pages(http, SEARCH, storeId=ONE_EACH_STORE, sort="createdDate:asc")
    winners = {row["id"] async for row in stored}
    found = announced(records)
    miscounts = [
        *miscounted_events(model, found, winners, is_mixed=is_mixed),
        *misannounced(model, found),
        *wrong_refused_returns(model, found),
        *wrong_entries(model, entries),
        *([] if is_mixed else contradictions(model, found, entries)),
    ]
    return [
        *wrong_refusals(model, events["SubmissionRefused"], winners),
        *wrong_rating_events(model, events["RatingChanged"], is_mixed=is_mixed),
        *wrong_lifecycles(model, events, winners),
        *(Difference(*each) for each in miscounts),
    ]


def wrong_refusals(model: Model, events: Sequence[Json], winners: Set[str]) -> list[Difference]:
    """Each refused review has an event with the reason. Of competing reviews, all but the stored one are
    refused."""
    announced = {code: set[str]() for code in REFUSALS}
    for event in events:
        announced.setdefault(event["code"], set()).add(event["reviewId"])
    raced = {id for ids in model.races.values() for id in ids}
    required = {CLOSED: model.refused, TAKEN: model.rivals, SECOND: model.raced - winners}
    allowed = {
        CLOSED: model.refused,
        TAKEN: set(filter(model.may_be_taken, announced[TAKEN])),
        SECOND: raced - winners,
    }
    return [
        *(
            Difference("lost", id, f"no refusal event: {code}")
            for code in required
            for id in required[code] - announced[code]
        ),
        *(
            Difference("wrong", id, f"refusal event without a refusal: {code}")
            for code, ids in announced.items()
            for id in ids - allowed.get(code, set())
        ),
    ]


def wrong_lifecycles(model: Model, events: Mapping[str, Sequence[Json]], winners: Set[str]) -> list[Difference]:
    """Each stored review has the events of its submission and of its current status, each created or deleted return
    its own.

    An approval or rejection that a later decision replaced isn't required to have one. Unexpected events are found
    for submissions and deletions of reviews.
    """
    reviews = {kind: {event["reviewId"] for event in events[kind]} for kind in REVIEW_EVENTS}
    returns = {kind: {event["returnId"] for event in events[kind]} for kind in RETURN_EVENTS}
    gone = {id for id, review in model.reviews.items() if review.status is None}
    # Imported reviews were approved or rejected elsewhere: no event announces that here.
    here = [(id, review.status) for id, review in model.living() if id not in model.pasts]
    required: dict[str, Set[str]] = {
        "ReviewSubmitted": model.reviews.keys() | winners,
        "ReviewDeleted": gone,
        "ReviewApproved": {id for id, status in here if status == "Approved"},
        "ReviewRejected": {id for id, status in here if status == "Rejected"},
        "ReturnCreated": model.returns.keys() | model.deleted_returns,
        "ReturnDeleted": model.deleted_returns,
    }
    found = reviews | returns
    allowed = {"ReviewSubmitted": model.reviews.keys() | winners, "ReviewDeleted": gone}
    return [
        *(Difference("lost", id, f"no {kind} event") for kind in required for id in required[kind] - found[kind]),
        *(
            Difference("wrong", id, f"unexpected {kind} event")
            for kind in allowed
            for id in found[kind] - allowed[kind]
        ),
    ]


def wrong_rating_events(model: Model, events: Sequence[Json], *, is_mixed: bool) -> list[Difference]:
    """The event with the highest revision has the current rating, in any order of publication.

    The version before may publish events without revisions: if it takes part, one of the events must have the
    rating.
    """
    by_key: dict[tuple[str, str | None], list[Json]] = defaultdict(list)
    for event in events:
        by_key[event["entityId"], event["storeId"]].append(event)
    expected, found = model.ratings(), []
    for key in expected.keys() | by_key.keys():
        about = by_key[key]
        if all("revision" in event for event in about):
            about = sorted(about, key=lambda event: event["revision"])[-1:]
        elif not is_mixed:
            found.append(Difference("wrong", key[0], f"rating event of {key} without a revision: {about[-1]}"))
        shown = [(event["reviewCount"], event["average"], event["histogram"]) for event in about]
        if expected.get(key, (0, 0.0, histogram([]))) not in shown:
            what = f"rating event of {key}: {shown[-1:]}, expected {expected.get(key)}"
            found.append(Difference("wrong" if shown else "lost", key[0], what))
    return found
