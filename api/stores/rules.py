"""The rules of stores about reviews, applied to the stored settings and purchases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from api.services import Services
from api.web.problems import ItemError, ProblemError, ProblemKind
from domain.objects import ObjectPlace, is_closed
from domain.orders import Purchase
from domain.ratings import Entity
from domain.review_tokens import ReviewToken
from domain.stores import Refusal, Store, refusal, refusals
from messaging.metrics import SUBMISSIONS
from messaging.reviews import SubmittedReview


class Author(NamedTuple):
    """An author, the object to review, and the store."""

    store_id: str
    user_id: str | None
    entity: Entity


async def purchasers(services: Services, authors: Iterable[Author]) -> Callable[[Author], bool]:
    """Tells which of these authors bought what they review, by one look-up for all."""
    made = await services.purchases.made({p for author in authors if (p := _purchase(author))})
    return lambda author: _purchase(author) in made


def _purchase(author: Author) -> Purchase | None:
    """The purchase that the author must have made; an anonymous one can't have made any."""
    return None if author.user_id is None else Purchase(author.store_id, author.user_id, author.entity)


class Proofs(NamedTuple):
    """Reviews with the authors whom their tokens name, and what the tokens prove, by their places in the request."""

    reviews: Sequence[SubmittedReview]
    of_reviews: Mapping[int, ReviewToken | Refusal]

    @property
    def proven(self) -> set[int]:
        """The places of the reviews whose tokens prove their authors."""
        return {index for index, proof in self.of_reviews.items() if isinstance(proof, ReviewToken)}


async def read_proofs(services: Services, reviews: Sequence[SubmittedReview]) -> Proofs:
    """Read the tokens of reviews."""
    if not any(review.token for review in reviews):
        return Proofs(reviews, {})
    keys, now = await services.review_tokens.keys(), datetime.now(UTC)
    reviews = [review.by_author(keys, now) for review in reviews]
    proofs = {index: proof for index, review in enumerate(reviews) if (proof := review.proof(keys, now))}
    return Proofs(reviews, proofs)


async def check_rules(services: Services, proofs: Proofs, ids: Sequence[str]) -> None:
    """Raises ProblemError when one of these reviews, which will have these ids, can't be taken."""
    objects = await services.objects.of_places({ObjectPlace(r.entity, r.store_id) for r in proofs.reviews})
    reasons = await _reasons_of_stores(services, proofs)
    for index, review in enumerate(proofs.reviews):
        if is_closed(objects, ObjectPlace(review.entity, review.store_id)):
            reasons[index] = Refusal.REVIEWS_DISABLED
    reasons |= await _reasons_of_tokens(services, proofs, ids)
    errors: list[ItemError] = [
        {"pointer": f"/{index}", "code": reason.value, "message": reason.message}
        for index, reason in sorted(reasons.items())
    ]
    for error in errors:
        SUBMISSIONS.labels(error["code"]).inc()
    if errors:
        raise ProblemError(ProblemKind.REFUSED, f"{errors[0]['message']} Nothing was accepted.", errors)


async def _reasons_of_tokens(services: Services, proofs: Proofs, ids: Sequence[str]) -> dict[int, Refusal]:
    """The reasons against tokens: what is known of their use may have changed when the reviews are stored."""
    lines = {index: proof.line for index, proof in proofs.of_reviews.items() if isinstance(proof, ReviewToken)}
    used = await services.review_tokens.used(set(lines.values()))
    reasons = {index: proof for index, proof in proofs.of_reviews.items() if isinstance(proof, Refusal)}
    for index, line in lines.items():
        if used.setdefault(line, ids[index]) != ids[index]:
            reasons[index] = Refusal.USED_PROOF
    return reasons


async def _reasons_of_stores(services: Services, proofs: Proofs) -> dict[int, Refusal]:
    """The reasons of stores against reviews. Those without a store are taken."""
    authors = {
        index: Author(review.store_id, review.user_id, review.entity)
        for index, review in enumerate(proofs.reviews)
        if review.store_id is not None
    }
    if not authors:
        return {}
    stores = await services.lookups.stores({author.store_id for author in authors.values()})
    has_purchased = await purchasers(
        services,
        (a for a in authors.values() if a.store_id in stores and stores[a.store_id].settings.purchase_required),
    )
    reasons = {}
    for index, author in authors.items():
        store = stores.get(author.store_id) or Store(author.store_id)
        bought = partial(bool, True) if index in proofs.of_reviews else partial(has_purchased, author)
        if reason := refusal(store, user_id=author.user_id, has_purchased=bought):
            reasons[index] = reason
    return reasons


async def reasons_against(
    services: Services, store_id: str | None, user_id: str | None, entity: Entity
) -> list[Refusal]:
    """Every reason for which a review of the object by this author, in the store or without one, wouldn't be taken."""
    reasons: list[Refusal] = []
    if store_id is not None:
        author, store = Author(store_id, user_id, entity), await services.stores.get(store_id) or Store(store_id)
        services.lookups.forget()
        has_purchased = await purchasers(services, [author])
        reasons += refusals(store, user_id=user_id, has_purchased=partial(has_purchased, author))
    place = ObjectPlace(entity, store_id)
    if is_closed(await services.objects.of_places([place]), place) and Refusal.REVIEWS_DISABLED not in reasons:
        reasons.insert(0, Refusal.REVIEWS_DISABLED)
    return reasons
