"""The rules of stores about submissions, by the stored settings, purchases and reviews."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from consumers.reviews_submissions import Key, Submission
from consumers.services import Services
from domain.claims import Claim, only_review
from domain.orders import Purchase
from domain.reviews import Review
from domain.stores import Refusal, Store, refusal
from storage.reviews_places import RefusedSubmission
from storage.unit_of_work import UnitOfWork


@dataclass(slots=True)
class Rules:
    """What the rules have against each submission, and the claims that its review needs. Reasons are added later where
    a claim turns out to be another review's."""

    reasons: dict[Key, Refusal] = field(default_factory=dict)
    claims: dict[Key, Sequence[Claim]] = field(default_factory=dict)


async def rules_about(services: Services, submissions: Iterable[Submission]) -> Rules:
    """Look up what the rules of their stores say, by one query of each kind."""
    with_store = [(s, s.review.store_id) for s in submissions if s.review.store_id is not None]
    stores = await services.stores.of_ids({store_id for _, store_id in with_store})
    known = [(s, stores[store_id]) for s, store_id in with_store if store_id in stores]
    purchases = {
        s.key: Purchase(store.id, s.review.user_id, s.review.entity)
        for s, store in known
        if s.review.user_id is not None and store.settings.purchase_required
    }
    claims = {s.key: [only_review(s.key.identity)] for s, store in known if _wants_claim(s, store)}
    made = await services.purchases.made(set(purchases.values()))
    written = await services.reviews.written_by({key.identity for key in claims})
    rules = Rules(claims=dict(claims))
    for submission, store_id in with_store:
        key = submission.key
        reason = refusal(
            stores.get(store_id),
            user_id=submission.review.user_id,
            has_purchased=partial(made.__contains__, purchases.get(key)),
            has_reviewed=partial(_is_another, key.id, written.get(key.identity, ())),
        )
        if reason:
            rules.reasons[key] = reason
    return rules


def _wants_claim(submission: Submission, store: Store) -> bool:
    return submission.review.user_id is not None and store.settings.one_review_per_customer


def _is_another(id: str, ids: Collection[str]) -> bool:
    return any(each != id for each in ids)


async def insert_claimed(
    reviews: Sequence[Review], claims: dict[str, Sequence[Claim]], work: UnitOfWork
) -> tuple[set[str], dict[str, Refusal]]:
    """Store reviews with their claims, in one transaction.

    Returns the ids that were taken, and the refusals of those of which another review has a claim.
    """
    repositories = work.repositories
    taken = set(await repositories.reviews.taken([review.id for review in reviews], work.session))
    free = [review for review in reviews if review.id not in taken]
    refused = await repositories.claims.take({review.id: claims[review.id] for review in free}, work.session)
    await repositories.reviews.insert_free([review for review in free if review.id not in refused], work.session)
    return taken, refused


async def replace_claimed(
    before: RefusedSubmission, review: Review, claims: Sequence[Claim], work: UnitOfWork
) -> tuple[bool, Refusal | None]:
    """Put a review in the place of a refused submission with its claims, in one transaction: if it could, and the
    refusal if another review has a claim."""
    refused = await work.repositories.claims.take({review.id: claims}, work.session)
    if refused:
        return False, refused[review.id]
    if await work.repositories.reviews.replace_refused(before, review, work.session):
        return True, None
    await work.repositories.claims.free([review.id], work.session)
    return False, None
