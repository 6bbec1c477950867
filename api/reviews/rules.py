"""The rules of stores for reviews, applied to the stored settings, purchases and reviews."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from api.reviews.edits import Wanted, refused
from api.services import Services
from api.web.problems import ProblemKind
from domain.objects import ObjectKey, is_closed
from domain.orders import Purchase
from domain.review_tokens import ReviewToken
from domain.reviews import ReviewIdentity
from domain.reviews_refusals import Refusal
from domain.stores import refusals
from messaging.reviews import SubmittedReview
from storage.database import result_or_default


async def purchasers(services: Services, authors: Iterable[ReviewIdentity]) -> set[ReviewIdentity]:
    """Those of these authors who bought what they review, in the store in which they do; one look-up for all."""
    purchases = {
        author: Purchase(author.store_id, author.user_id, author.entity)
        for author in authors
        if author.store_id is not None and author.user_id is not None
    }
    made = await services.purchases.existing(set(purchases.values()))
    return {author for author, purchase in purchases.items() if purchase in made}


class Proofs(NamedTuple):
    """Reviews with the authors that their tokens name, and what the tokens prove, by index in the request."""

    reviews: Sequence[SubmittedReview]
    of_reviews: Mapping[int, ReviewToken | Refusal]

    @property
    def proven(self) -> set[int]:
        """The indexes of the reviews whose tokens prove their authors."""
        return {index for index, proof in self.of_reviews.items() if isinstance(proof, ReviewToken)}


async def read_proofs(services: Services, reviews: Sequence[SubmittedReview]) -> Proofs:
    """Read the tokens of reviews."""
    if not any(review.token for review in reviews):
        return Proofs(reviews, {})
    keys, now = await services.review_tokens.keys(), datetime.now(UTC)
    reviews = [review.by_author(keys, now) for review in reviews]
    proofs = {index: proof for index, review in enumerate(reviews) if (proof := review.proof(keys, now))}
    return Proofs(reviews, proofs)


async def check_rules(
    services: Services, wanted: Mapping[int, Wanted], proofs: Mapping[int, ReviewToken | Refusal]
) -> None:
    """Raise ProblemError if one of these reviews, by index in the request, is refused. Moderators' edits are exempt
    from the rules of stores."""
    proofs = {index: proof for index, proof in proofs.items() if index in wanted}
    ruled = {index: item for index, item in wanted.items() if not item.is_moderated}
    closed, reasons = await asyncio.gather(
        result_or_default(services.lookups.closed({item.object_key for item in ruled.values()}), set()),
        _reasons_of_stores(services, ruled, proofs),
    )
    reasons |= {index: Refusal.REVIEWS_DISABLED for index, item in ruled.items() if item.object_key in closed}
    reasons |= await _reasons_of_tokens(services, wanted, proofs)
    if reasons:
        raise refused(ProblemKind.REFUSED, {f"/{index}": reason for index, reason in sorted(reasons.items())})


async def _reasons_of_tokens(
    services: Services, wanted: Mapping[int, Wanted], proofs: Mapping[int, ReviewToken | Refusal]
) -> dict[int, Refusal]:
    """The reasons against tokens. Their use may have changed by the time the reviews are stored."""
    lines = {index: proof.line for index, proof in proofs.items() if isinstance(proof, ReviewToken)}
    used = await services.review_tokens.used(set(lines.values()))
    reasons = {index: proof for index, proof in proofs.items() if isinstance(proof, Refusal)}
    for index, line in lines.items():
        if used.setdefault(line, wanted[index].id) != wanted[index].id:
            reasons[index] = Refusal.USED_PROOF
    return reasons


async def _reasons_of_stores(
    services: Services, wanted: Mapping[int, Wanted], proofs: Mapping[int, ReviewToken | Refusal]
) -> dict[int, Refusal]:
    """The reasons of stores against reviews. Reviews without a store pass; while the database is unavailable, so do
    those whose store is cached, if its rules need no look-up."""
    authors = {i: (item, item.review.identity) for i, item in wanted.items() if item.review.store_id is not None}
    if not authors:
        return {}
    store_ids = {author.store_id for _, author in authors.values() if author.store_id}
    stores = await services.lookups.stores_for_rules(store_ids)
    known = [(author, store) for _, author in authors.values() if (store := stores.get(author.store_id or ""))]
    bought = await purchasers(services, (author for author, store in known if store.settings.purchase_required))
    limited = {a for a, store in known if a.user_id is not None and store.settings.one_review_per_customer}
    written = await services.reviews.written_by(limited)
    reasons = {}
    for index, (item, author) in authors.items():
        ids = written.setdefault(author, set())
        found = refusals(
            stores.get(author.store_id or ""),
            user_id=author.user_id,
            has_purchased=index in proofs or author in bought,
            has_reviewed=not item.is_edit and bool(ids - {item.id}),
        )
        if reason := next(found, None):
            reasons[index] = reason
        ids.add(item.id)  # the next one in this request is a second review
    return reasons


async def reasons_against(services: Services, author: ReviewIdentity) -> list[Refusal]:
    """All reasons why a review of this object by this author, in this store or without one, would be refused."""
    reasons: list[Refusal] = []
    if author.store_id is not None:
        store = await services.stores.get(author.store_id)
        services.lookups.forget()
        bought = await purchasers(services, [author])
        written = await services.reviews.written_by([author] if author.user_id is not None else [])
        reasons += refusals(store, user_id=author.user_id, has_purchased=author in bought, has_reviewed=bool(written))
    object_key = ObjectKey(author.entity, author.store_id)
    if is_closed(await services.objects.of_keys([object_key]), object_key) and Refusal.REVIEWS_DISABLED not in reasons:
        reasons.insert(0, Refusal.REVIEWS_DISABLED)
    return reasons
