"""The rules of stores for reviews, applied to the stored settings, purchases and reviews."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from api.reviews.edits import Wanted, refused
from api.services import Services
from api.web.problems import ProblemKind
from domain.objects import ObjectKey, is_closed
from domain.orders import Purchase
from domain.review_tokens import ReviewToken
from domain.reviews import ReviewIdentity
from domain.reviews_refusals import Refusal
from domain.stores import Store, refusal, refusals
from messaging.reviews import SubmittedReview
from storage.database import result_or_default


async def purchasers(services: Services, authors: Iterable[ReviewIdentity]) -> Callable[[ReviewIdentity], bool]:
    """A predicate that is true for authors who bought what they review, from one look-up for all of them."""
    made = await services.purchases.existing({p for author in authors if (p := _purchase(author))})
    return lambda author: _purchase(author) in made


def _purchase(author: ReviewIdentity) -> Purchase | None:
    """The purchase that the author must have made; None for an anonymous one, or without a store."""
    if author.user_id is None or author.store_id is None:
        return None
    return Purchase(author.store_id, author.user_id, author.entity)


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
    ids = {author.store_id for _, author in authors.values() if author.store_id}
    stores = await services.lookups.stores_for_commands(ids)
    known = [author for _, author in authors.values() if author.store_id in stores]
    has_purchased = await purchasers(services, (a for a in known if _store(stores, a).settings.purchase_required))
    limited = {a for a in known if a.user_id is not None and _store(stores, a).settings.one_review_per_customer}
    holders = await services.reviews.written_by(limited)
    reasons = {}
    for index, (item, author) in authors.items():
        held_by = holders.setdefault(author, set())
        reason = refusal(
            stores.get(author.store_id or ""),
            user_id=author.user_id,
            has_purchased=partial(bool, True) if index in proofs else partial(has_purchased, author),
            has_reviewed=partial(_has_another, item, frozenset(held_by)),
        )
        held_by.add(item.id)  # the next one in this request is a second review
        if reason:
            reasons[index] = reason
    return reasons


def _has_another(item: Wanted, held_by: Collection[str]) -> bool:
    return not item.is_edit and any(id != item.id for id in held_by)


def _store(stores: Mapping[str, Store], author: ReviewIdentity) -> Store:
    return stores[author.store_id or ""]


async def reasons_against(services: Services, author: ReviewIdentity) -> list[Refusal]:
    """All reasons why a review of this object by this author, in this store or without one, would be refused."""
    reasons: list[Refusal] = []
    if author.store_id is not None:
        store = await services.stores.get(author.store_id)
        services.lookups.forget()
        has_purchased = await purchasers(services, [author])
        written = await services.reviews.written_by([author] if author.user_id is not None else [])
        reasons += refusals(
            store,
            user_id=author.user_id,
            has_purchased=partial(has_purchased, author),
            has_reviewed=partial(bool, written),
        )
    object_key = ObjectKey(author.entity, author.store_id)
    if is_closed(await services.objects.of_keys([object_key]), object_key) and Refusal.REVIEWS_DISABLED not in reasons:
        reasons.insert(0, Refusal.REVIEWS_DISABLED)
    return reasons
