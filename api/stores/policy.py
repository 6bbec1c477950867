"""The endpoint of a store's review policy."""

from datetime import datetime
from typing import Annotated, Final

from fastapi import Path
from typing_extensions import TypedDict

from api.auth.permissions import ReviewReader
from api.services import Injected
from api.stores.bounds import check_store
from api.web.openapi import problems
from api.web.problems import ProblemKind, not_found
from api.web.responses import JsonResponse
from api.web.routes import routes
from domain.policy import Check, Decisions, Policy, Proof, Writers, decision_sentences, policy_of
from domain.ratings import STARS
from domain.reviews import ReviewStatus
from domain.reviews_facts import ReasonCode
from domain.stores import Store
from domain.timestamps import timestamp
from messaging.schemas import ShownMoment


class RuleShown(TypedDict):
    """A moderation rule in force; `outcome` is approve, hold or flag."""

    kind: str
    outcome: str
    publishAfterHours: int | None


class PolicyShown(TypedDict):
    """The review policy of a store: sentences for readers, and the same as fields.

    `decisions` has the number of published and rejected reviews by stars, and of rejected ones by reason (`none`: none
    was given), as of `countedAt`; if they are more than 200,000, of the newest 200,000.
    """

    storeId: str
    storeName: str | None
    sentences: list[str]
    writers: Writers
    purchaseRequired: bool
    purchaseProofs: list[Proof]
    verifiedPurchasesMarked: bool
    incentivizedMarked: bool
    checkedBeforePublication: bool
    checkedBy: list[Check]
    rules: list[RuleShown]
    rejectionReasons: list[ReasonCode]
    oneReviewPerCustomer: bool
    editsCheckedAgain: bool
    decisions: "DecisionsShown"
    countedAt: ShownMoment


class DecisionsShown(TypedDict):
    """Numbers of reviews by stars, and by the reason for their rejection."""

    approved: dict[str, int]
    rejected: dict[str, int]
    rejectedByReason: dict[str, int]


router: Final = routes("/api/stores", "Stores and settings")


@router.get("/{storeId}/review-policy", response_model=PolicyShown, responses=problems(ProblemKind.NOT_FOUND))
async def read_policy(
    caller: ReviewReader, store_id: Annotated[str, Path(alias="storeId")], services: Injected
) -> JsonResponse:
    """The ways in which reviews of a store are checked, in sentences and as fields. Counts may be ten minutes old."""
    check_store(caller, store_id)
    store = (await services.lookups.stores_for_rules([store_id])).get(store_id)
    if store is None:
        raise not_found("store")
    counted = await services.store_counts.decisions(store_id)
    return JsonResponse(shown_policy(store, policy_of(store.settings), *counted))


def shown_policy(store: Store, policy: Policy, decisions: Decisions, at: datetime) -> PolicyShown:
    """The policy of a store as the API shows it."""
    return {
        "storeId": store.id,
        "storeName": store.name or store.id,
        "sentences": [*policy.sentences(), *decision_sentences(decisions)],
        "writers": policy.writers,
        "purchaseRequired": policy.purchase_required,
        "purchaseProofs": list(policy.purchase_proofs),
        "verifiedPurchasesMarked": True,
        "incentivizedMarked": True,
        "checkedBeforePublication": policy.checks_reviews,
        "checkedBy": list(policy.checked_by),
        "rules": [
            {"kind": rule.kind, "outcome": rule.outcome, "publishAfterHours": rule.publish_after_hours}
            for rule in policy.rules
        ],
        "rejectionReasons": list(ReasonCode),
        "oneReviewPerCustomer": policy.one_review_per_customer,
        "editsCheckedAgain": policy.edits_are_checked,
        "decisions": {
            "approved": _by_stars(decisions, ReviewStatus.APPROVED),
            "rejected": _by_stars(decisions, ReviewStatus.REJECTED),
            # orjson accepts only plain strings as keys, not members of an enumeration.
            "rejectedByReason": {code.value if code else "none": n for code, n in decisions.by_reason.items()},
        },
        "countedAt": timestamp(at),
    }


def _by_stars(decisions: Decisions, status: ReviewStatus) -> dict[str, int]:
    return {str(stars): decisions.by_stars[status][stars] for stars in STARS}
