"""The rules for submitted reviews: those of their stores, of their objects, and of review tokens."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from consumers.services import Services
from domain.objects import ObjectPlace, is_closed, object_name
from domain.orders import Purchase
from domain.review_tokens import ReviewToken
from domain.stores import Refusal, Store, refusal
from messaging.reviews import SubmittedReview
from storage.review_tokens import UsedToken

K = TypeVar("K", bound=Hashable)


class Candidate(NamedTuple):
    """A submission with the id that its review will have, and when it was submitted."""

    id: str
    review: SubmittedReview
    at: datetime

    @property
    def place(self) -> ObjectPlace:
        """The object and the store."""
        return ObjectPlace(self.review.entity, self.review.store_id)


@dataclass(frozen=True, slots=True)
class Judgement(Generic[K]):
    """Reasons against submissions, names of their objects, and the tokens that were used up for them just now."""

    reasons: dict[K, Refusal]
    names: Mapping[K, str]
    used: Mapping[K, UsedToken]


@dataclass(frozen=True, slots=True)
class SubmissionRules:
    """Judges batches of submissions by what the database holds, with one query for each kind of thing."""

    services: Services

    async def judge(self, candidates: Mapping[K, Candidate], proofs: Mapping[K, ReviewToken | Refusal]) -> Judgement[K]:
        """The reasons against submissions. The tokens of those without any are used up for them."""
        objects = await self.services.objects.of_places({each.place for each in candidates.values()})
        reasons = await self._reasons_of_stores(candidates, proofs)
        reasons |= {key: Refusal.REVIEWS_DISABLED for key, c in candidates.items() if is_closed(objects, c.place)}
        reasons |= {key: proof for key, proof in proofs.items() if isinstance(proof, Refusal)}
        wanted = {
            key: UsedToken(proof, candidates[key].id)
            for key, proof in proofs.items()
            if isinstance(proof, ReviewToken) and key not in reasons
        }
        fresh, holders = await self.services.review_tokens.use(wanted.values())
        mine = {key: used for key, used in wanted.items() if holders[used.token.line] == used.review_id}
        reasons |= dict.fromkeys(wanted.keys() - mine.keys(), Refusal.USED_PROOF)
        names = {key: name for key, c in candidates.items() if (name := object_name(objects, c.place))}
        return Judgement(reasons, names, {key: used for key, used in mine.items() if used.token.line in fresh})

    async def release(self, judgement: Judgement[K], refused: Iterable[K]) -> None:
        """Give the tokens of submissions back that were refused in the end."""
        used = judgement.used
        await self.services.review_tokens.release(used[key] for key in refused if key in used)

    async def _reasons_of_stores(
        self, candidates: Mapping[K, Candidate], proofs: Mapping[K, ReviewToken | Refusal]
    ) -> dict[K, Refusal]:
        with_store = {key: (c.review, id) for key, c in candidates.items() if (id := c.review.store_id) is not None}
        stores = await self.services.stores.of_ids({store_id for _, store_id in with_store.values()})
        purchases = {
            key: Purchase(store_id, review.user_id, review.entity)
            for key, (review, store_id) in with_store.items()
            if key not in proofs
            and review.user_id is not None
            and store_id in stores
            and stores[store_id].settings.purchase_required
        }
        made = await self.services.purchases.made(set(purchases.values()))
        bought = proofs.keys() | {key for key, purchase in purchases.items() if purchase in made}
        reasons = {
            key: refusal(
                stores.get(store_id) or Store(store_id),
                user_id=review.user_id,
                has_purchased=partial(bought.__contains__, key),
            )
            for key, (review, store_id) in with_store.items()
        }
        return {key: reason for key, reason in reasons.items() if reason}
