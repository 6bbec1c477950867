"""Endpoints that help to decide about a review: the reasons of its flags, and the effect on the rating."""

import asyncio
from typing import Final

from typing_extensions import TypedDict

from api.auth.permissions import ReviewReader
from api.services import Injected, Services
from api.stores.bounds import visible_to
from api.web.problems import ProblemKind
from api.web.responses import JsonResponse
from api.web.routes import routes
from domain.moderation_rules import RuleKind, rule_input, text_keys
from domain.moderation_rules_compiled import rule_set
from domain.ratings import RatingMethod, RatingTally, rating_value
from domain.reviews import Review, ReviewStatus
from domain.stores import rating_method


class FlagReason(TypedDict):
    """A flag of a review. If its store has the rule of the flag: the `kind` of the rule; the pieces of the text,
    normalised as for rules, that it matches (for words, links, contact, repeated; up to 5 of up to 128 characters);
    and, for duplicates, the first review with the text. For any other flag `kind` is null."""

    flag: str
    kind: RuleKind | None
    found: list[str]
    duplicateOf: str | None


class FlagReasons(TypedDict):
    """The flags of a review, in their order."""

    results: list[FlagReason]


class RatingNumbers(TypedDict):
    """A rating, 0 to 5 (0: no reviews), and the number of approved reviews behind it."""

    value: float
    reviewCount: int


class Impact(TypedDict):
    """The rating of a review's object in its store, by the store's method: now, and after each decision."""

    method: RatingMethod
    now: RatingNumbers
    ifApproved: RatingNumbers
    ifNotApproved: RatingNumbers


router: Final = routes("/api/customerReviews/{id}", "Reviews", ProblemKind.NOT_FOUND)


@router.get("/flags", response_model=FlagReasons)
async def read_flags(caller: ReviewReader, id: str, services: Injected) -> JsonResponse:
    """The reasons why a review is held back or flagged: its flags, and the parts of its text that match the current
    rules."""
    review = visible_to(caller, await services.reviews.get(id), "review")
    store = await services.stores.get(review.store_id) if review.store_id is not None and review.flags else None
    rules = store.settings.moderation_rules if store else ()
    kinds = {rule.id: rule.kind for rule in rules}
    first = None
    if any(kinds.get(flag) is RuleKind.DUPLICATE for flag in review.flags):
        noted = await services.texts.noted(text_keys(review.identity, review.text))
        first = next((holder for holder in noted.values() if holder != review.id), None)
    # In a thread: long word lists and hostile texts take a while.
    found = await asyncio.to_thread(lambda: rule_set(rules).evidence(rule_input(review)))
    reasons = [
        FlagReason(
            flag=flag,
            kind=kinds.get(flag),
            found=[*found.get(flag, ())],
            duplicateOf=first if kinds.get(flag) is RuleKind.DUPLICATE else None,
        )
        for flag in review.flags
    ]
    return JsonResponse({"results": reasons})


@router.get("/impact", response_model=Impact)
async def read_impact(caller: ReviewReader, id: str, services: Injected) -> JsonResponse:
    """The rating of a review's object now, and after each decision about the review."""
    found, now = await _review_with_tally(services, id)
    review = visible_to(caller, found, "review")
    own = RatingTally.of([review.rating])
    is_counted = review.status is ReviewStatus.APPROVED
    stores = await services.lookups.stores([review.store_id])
    method = rating_method(await services.lookups.general(), stores.get(review.store_id or ""))

    def numbers(tally: RatingTally) -> RatingNumbers:
        # Without the review a damaged tally may have a negative count.
        return {"value": rating_value(tally, method), "reviewCount": max(0, tally.count)}

    return JsonResponse(
        {
            "method": method,
            "now": numbers(now),
            "ifApproved": numbers(now if is_counted else now + own),
            "ifNotApproved": numbers(now - own if is_counted else now),
        }
    )


async def _review_with_tally(services: Services, id: str) -> tuple[Review | None, RatingTally]:
    """A review and the tally of its object in its store, from one snapshot: a decision in between would count twice."""
    async with services.database.client.start_session(snapshot=True) as session:
        review = await services.reviews.get(id, session)
        if review is None:
            return None, RatingTally()
        entity = review.entity
        tallies = await services.ratings.of_entities(entity.type, [entity.id], session=session)
    return review, tallies.get(entity.id, {}).get(review.store_id, RatingTally())
