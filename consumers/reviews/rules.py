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
from storage.review_tokens import UsedToken
from storage.reviews.ids import IdHolder

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
    used: Mapping[Key, UsedToken] = field(default_factory=dict)
    """Tokens that have just been used up."""
    used_before: Mapping[Key, UsedToken] = field(default_factory=dict)
    """Tokens that may have been used up by an interrupted attempt."""
    bought: Collection[Key] = frozenset()
    """Submissions for which an order was looked up and found."""
    proven: Collection[Key] = frozenset()
    """Submissions with a valid token that is used for them alone."""
    contested: Collection[Key] = frozenset()
    """Refused submissions whose token is used for another submission of the batch, which may yet be refused."""
    stores: Mapping[str, Store] = field(default_factory=dict)
    """Registered stores, by id."""
    uploaded: Collection[str] = ()
    """Ids of images that are uploaded but not rebuilt yet."""


async def rules_about(
    services: Services, submissions: Collection[Submission], token_keys: Sequence[bytes], attempt: str
) -> BatchRules:
    """Apply the rules, with one query of each kind. The tokens of submissions that may be stored are used up by the
    attempt."""
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
    return await _with_tokens(services, proofs, rules, attempt)


def decidable(submissions: Mapping[Key, Submission], contested: Collection[Key]) -> Mapping[Key, Submission]:
    """The submissions that can be decided now: contested ones wait, and with them the later ones with their ids. Others
    that want the same unique key or image go first. If all would wait, all of them."""
    ids: set[str] = set()
    found = {}
    for key, each in submissions.items():
        if key in contested:
            ids.add(each.id)
        if each.id not in ids:
            found[key] = each
    return found or submissions


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


async def release_tokens(services: Services, rules: BatchRules, refused: Collection[Key]) -> None:
    """Release the tokens of submissions that were refused in the end, unless another submission, of the batch or an
    earlier one, has stored the review with the token."""
    kept = {used.token.line for key, used in rules.used.items() if key not in refused}
    given_back = [used for key, used in rules.used.items() if key in refused and used.token.line not in kept]
    before = {key: used for key, used in rules.used_before.items() if key in refused}
    holders = await services.reviews.holders({key.id for key in before})
    given_back += [used for key, used in before.items() if _has_no_review(key, holders.get(key.id))]
    await services.review_tokens.release(given_back)


def _has_no_review(key: Key, holder: IdHolder | None) -> bool:
    """True unless the id is held by a review with this identity, or by a deleted review."""
    return holder is None or holder.refused is not None or holder.identity not in (None, key.identity)


async def _with_tokens(services: Services, proofs: Proofs, rules: BatchRules, attempt: str) -> BatchRules:
    """The rules with the tokens of submissions that aren't refused, which are used up, and the refusals of others."""
    valid = {key: UsedToken(proof, key.id, attempt) for key, proof in proofs.items() if isinstance(proof, ReviewToken)}
    # First, so that an earlier attempt has either released them by now, or can no longer do so.
    await services.review_tokens.take_over(valid.values())
    wanted = {key: used for key, used in valid.items() if key not in rules.reasons}
    fresh, holders = await services.review_tokens.use(wanted.values())
    proven = {key for key, used in wanted.items() if holders[used.token.line] == used.review_id}
    used = {key: each for key, each in wanted.items() if key in proven and each.token.line in fresh}
    held = {(each.token.line, each.review_id) for each in wanted.values()}
    return replace(
        rules,
        reasons={**rules.reasons, **{key: Refusal.USED_PROOF for key in wanted if key not in proven}},
        proven=proven,
        contested={
            key for key in wanted.keys() - proven if (wanted[key].token.line, holders[wanted[key].token.line]) in held
        },
        used=used,
        used_before={key: token for key, token in valid.items() if key not in used},
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
