"""The endpoint that tries moderation rules on reviews."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import Depends, Path
from pydantic import TypeAdapter

from api import examples
from api.auth.permissions import SettingsReader
from api.services import Injected
from api.stores.bounds import check_store
from api.web.bodies import JsonBody
from api.web.openapi import problems
from api.web.problems import ProblemError, ProblemKind
from api.web.responses import JsonResponse
from api.web.routes import routes
from domain.moderation_rules import ModerationRule, RuleSet, trial_rulings
from domain.reviews import Review
from messaging.moderation_rules_trial import RuleTrial, TrialResult, TriedRow, trial_summary, tried_row
from messaging.schemas import Id

TRIAL: Final = JsonBody(TypeAdapter(RuleTrial), {"Two reviews": examples.RULE_TRIAL})

router: Final = routes("/api/stores", "Stores and settings")


@router.post("/{storeId}/moderationRules/try", response_model=TrialResult, responses=problems(ProblemKind.NOT_FOUND))
async def try_rules(
    caller: SettingsReader,
    store_id: Annotated[Id, Path(alias="storeId")],
    trial: Annotated[RuleTrial, Depends(TRIAL)],
    services: Injected,
) -> JsonResponse:
    """Try rules on these reviews: the given rules, or else those of the store. Nothing is written."""
    check_store(caller, store_id)
    if trial.rules is not None:
        rules = tuple(fields.rule() for fields in trial.rules)
    else:
        store = await services.stores.get(store_id)
        if store is None:
            raise ProblemError(ProblemKind.NOT_FOUND, "There is no store with this id. Register it, or send `rules`.")
        rules = store.settings.moderation_rules
    reviews = [review.as_review(index, store_id) for index, review in enumerate(trial.reviews)]
    async with services.rule_trials:
        rows = await asyncio.to_thread(_rows, rules, reviews)
    return JsonResponse({"results": rows, "summary": trial_summary(rows)})


def _rows(rules: tuple[ModerationRule, ...], reviews: Sequence[Review]) -> list[TriedRow]:
    return [tried_row(review, ruling) for review, ruling in trial_rulings(RuleSet(rules), reviews)]
