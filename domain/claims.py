"""Claims: keys that only one review can hold, such as the key of a customer's only review of an object."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from domain.reviews import ReviewIdentity
from domain.reviews_refusals import Refusal


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim: its id, which names nobody, and the reason for refusing a second review."""

    id: str
    refusal: Refusal


def only_review(identity: ReviewIdentity) -> Claim:
    """The claim of the only review that a customer may write of an object in a store."""
    identity_json = json.dumps([identity.store_id, *identity.entity, identity.user_id])
    return Claim(f"only-review/{sha256(identity_json.encode()).hexdigest()}", Refusal.DUPLICATE_REVIEW)


def lost_claim(claims: Iterable[Claim], review_id: str, holders: Mapping[str, str]) -> Refusal | None:
    """The refusal of a review that wants these claims, None if it can have all. `holders`: the review that has each
    claim, by the claim's id."""
    return next((claim.refusal for claim in claims if holders.get(claim.id, review_id) != review_id), None)
