"""The endpoint of why a review is held back: its flags, each with what it is about."""

from __future__ import annotations

import asyncio
from typing import Final

from typing_extensions import TypedDict

from api.auth.permissions import ReviewReader
from api.services import Injected
from api.web.problems import ProblemKind, not_found
from api.web.responses import JsonResponse
from api.web.routes import routes
from domain.moderation_rules import ModerationRule, RuleKind, judged, text_keys
from domain.moderation_rules_compiled import rule_set
from domain.reviews import Review


class FlagReason(TypedDict):
    """A flag of a review. Of a rule that its store has by now: its `kind`, the pieces of the text, in the form in which
    rules compare it, for which it fires (of words, links, contact, repeated; up to 5 of up to 128 characters), and, of
    duplicates, the review that was the first with the text. Of any other flag `kind` is null."""

    flag: str
    kind: RuleKind | None
    found: list[str]
    duplicateOf: str | None


class FlagReasons(TypedDict):
    """The flags of a review, in their order."""

    results: list[FlagReason]


router: Final = routes("/api/customerReviews/{id}", "Reviews", ProblemKind.NOT_FOUND, ProblemKind.UNAVAILABLE)


def _evidence(rules: tuple[ModerationRule, ...], review: Review) -> dict[str, tuple[str, ...]]:
    return rule_set(rules).evidence(judged(review))


@router.get("/flags", response_model=FlagReasons)
async def read_flags(caller: ReviewReader, id: str, services: Injected) -> JsonResponse:
    """Why a review is held back or flagged: its flags, and what in its text they are about by the rules of now."""
    review = await services.reviews.get(id)
    if review is None or not caller.may_touch(review.store_id):
        raise not_found("review")
    store = await services.stores.get(review.store_id) if review.store_id is not None and review.flags else None
    rules = store.settings.moderation_rules if store else ()
    kinds = {rule.id: rule.kind for rule in rules}
    first = None
    if any(kinds.get(flag) is RuleKind.DUPLICATE for flag in review.flags):
        noted = await services.texts.noted(text_keys(review.identity, review.text))
        first = next((holder for holder in noted.values() if holder != review.id), None)
    # In a thread: many words and hostile texts take a while.
    found = await asyncio.to_thread(_evidence, rules, review)
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
