"""The rules about submissions: those of their stores, objects, images, and review tokens."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from consumers.images.claims import WantedImages, image_refusals, uploaded_among
from consumers.reviews.submissions import Key, Submission
from consumers.services import Services
from domain.moderation_rules import RuleKind
from domain.objects import ObjectKey, is_closed, object_name
from domain.orders import Purchase
from domain.review_tokens import ReviewToken
from domain.reviews import ReviewIdentity
from domain.reviews_refusals import Refusal
from domain.stores import Store, is_open_to_customers, refusals

Proofs = Mapping[Key, ReviewToken | Refusal]
"""The purchase that the token of each submission proves, or the reason why it proves none."""


@dataclass(frozen=True, slots=True)
class BatchRules:
    """The refusals of the rules for a batch, and the data with which its reviews are stored. Each step of `rules_about`
    returns them with its own findings."""

    reasons: Mapping[Key, Refusal]
    """Refusals."""
    only_reviews: Collection[ReviewIdentity]
    """The identities that only one review can have: its author may write no other one of the object in the store."""
    names: Mapping[Key, str] = field(default_factory=dict)
    """Names of the objects."""
    tokens: Mapping[Key, ReviewToken] = field(default_factory=dict)
    """Valid tokens of submissions that aren't refused, none of them used for another review. Several submissions may
    have the same one: the first that is stored uses it up."""
    bought: Collection[Key] = frozenset()
    """Submissions for which an order was looked up and found."""
    stores: Mapping[str, Store] = field(default_factory=dict)
    """Registered stores, by id."""
    uploaded: Collection[str] = ()
    """Ids of images that are uploaded but not rebuilt yet."""


async def rules_about(
    services: Services, submissions: Collection[Submission], token_keys: Sequence[bytes]
) -> BatchRules:
    """Apply the rules, with one query of each kind."""
    objects = {s.key: ObjectKey(s.key.identity.entity, s.key.identity.store_id) for s in submissions}
    with_token = [s for s in submissions if s.review.token]
    proofs = {s.key: proof for s in with_token if (proof := s.review.proof(token_keys, s.created))}
    facts, rules = await asyncio.gather(
        services.objects.of_keys(set(objects.values())), _rules_of_stores(services, submissions, proofs)
    )
    closed = {s.key for s in submissions if facts and is_closed(facts, objects[s.key]) and not s.is_import}
    invalid = {key: proof for key, proof in proofs.items() if isinstance(proof, Refusal)}
    rules = replace(
        rules,
        reasons={**rules.reasons, **dict.fromkeys(closed, Refusal.REVIEWS_DISABLED), **invalid},
        names={key: name for key, each in objects.items() if facts and (name := object_name(facts, each))},
    )
    rules = await _with_images(services, [s for s in submissions if s.review.images], rules)
    return await _with_tokens(services, proofs, rules)


async def _with_images(services: Services, submissions: Collection[Submission], rules: BatchRules) -> BatchRules:
    """The rules with refusals because of images."""
    if not submissions:
        return rules
    wanted = [WantedImages(s.id, s.review.user_id, s.review.facts().source, s.review.images or ()) for s in submissions]
    uploaded = await uploaded_among(services, wanted)
    reasons = await image_refusals(services, wanted, uploaded)
    refused = {s.key: reason for s, reason in zip(submissions, reasons, strict=True) if reason}
    # The findings of the steps before stay.
    return replace(rules, reasons={**refused, **rules.reasons}, uploaded=uploaded)


async def _with_tokens(services: Services, proofs: Proofs, rules: BatchRules) -> BatchRules:
    """The rules with the tokens of submissions that aren't refused, and with refusals because of used ones."""
    valid = {key: proof for key, proof in proofs.items() if isinstance(proof, ReviewToken) and key not in rules.reasons}
    holders = await services.review_tokens.used({token.line for token in valid.values()})
    used = {key for key, token in valid.items() if holders.get(token.line, key.id) != key.id}
    return replace(
        rules,
        reasons={**rules.reasons, **dict.fromkeys(used, Refusal.USED_PROOF)},
        tokens={key: token for key, token in valid.items() if key not in used},
    )


async def _rules_of_stores(services: Services, submissions: Iterable[Submission], proofs: Proofs) -> BatchRules:
    with_store = [(s, store_id) for s in submissions if (store_id := s.key.identity.store_id) is not None]
    stores = await services.stores.of_ids({store_id for _, store_id in with_store})
    known = [(s, stores[store_id]) for s, store_id in with_store if store_id in stores]
    asking = {id for id, store in stores.items() if _asks_for_purchase(store)}
    purchases = {
        s.key: Purchase(store.id, s.key.identity.user_id, s.key.identity.entity)
        for s, store in known
        if store.id in asking and s.key not in proofs and s.key.identity.user_id is not None
    }
    only_reviews = {s.key.identity for s, store in known if _is_only_review(s, store)}
    made = await services.purchases.existing(set(purchases.values()))
    bought = {key for key, purchase in purchases.items() if purchase in made}
    written = await services.reviews.written_by(only_reviews)
    purchased = proofs.keys() | bought
    reasons = {}
    open_to_customers = {id for id, store in stores.items() if is_open_to_customers(store)}
    for submission, store_id in with_store:
        key, user_id = submission.key, submission.key.identity.user_id
        if store_id in open_to_customers and user_id is not None:
            continue
        found = refusals(
            stores.get(store_id),
            user_id=user_id,
            has_purchased=key in purchased,
            has_reviewed=any(id != key.id for id in written.get(key.identity, ())),
            is_import=submission.is_import,
        )
        if reason := next(found, None):
            reasons[key] = reason
    return BatchRules(reasons, only_reviews, bought=bought, stores=stores)


def _asks_for_purchase(store: Store) -> bool:
    """True if a purchase affects whether a review is accepted, or how a moderation rule judges it."""
    settings = store.settings
    return settings.purchase_required or any(rule.kind is RuleKind.VERIFIED for rule in settings.moderation_rules)


def _is_only_review(submission: Submission, store: Store) -> bool:
    return store.settings.one_review_per_customer and submission.key.identity.user_id is not None
