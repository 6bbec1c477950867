"""The rules of stores about reviews, applied to the stored settings, purchases and reviews."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from api.reviews.edits import Wanted
from api.services import Services
from api.web.problems import ItemError, ProblemError, ProblemKind
from domain.orders import Purchase
from domain.reviews import ReviewIdentity
from domain.stores import Refusal, Store, refusal, refusals
from messaging.metrics import SUBMISSIONS


async def purchasers(services: Services, authors: Iterable[ReviewIdentity]) -> Callable[[ReviewIdentity], bool]:
    """Tells which of these authors bought what they review, by one look-up for all."""
    made = await services.purchases.made({p for author in authors if (p := _purchase(author))})
    return lambda author: _purchase(author) in made


def _purchase(author: ReviewIdentity) -> Purchase | None:
    """The purchase that the author must have made in a store; an anonymous one can't have made any."""
    if author.user_id is None or author.store_id is None:
        return None
    return Purchase(author.store_id, author.user_id, author.entity)


async def check_store_rules(services: Services, wanted: Sequence[Wanted]) -> None:
    """Raises ProblemError when a store doesn't take one of these reviews. Those without a store, and what moderators
    edit, are taken."""
    authors = {
        index: (item, item.review.identity)
        for index, item in enumerate(wanted)
        if item.review.store_id is not None and not item.is_moderated
    }
    if not authors:
        return
    stores = await services.lookups.stores({author.store_id for _, author in authors.values() if author.store_id})
    known = [author for _, author in authors.values() if author.store_id in stores]
    has_purchased = await purchasers(services, (a for a in known if _store(stores, a).settings.purchase_required))
    once = {a for a in known if a.user_id is not None and _store(stores, a).settings.one_review_per_customer}
    holders = await services.reviews.written_by(once)
    errors: list[ItemError] = []
    for index, (item, author) in authors.items():
        held_by = holders.setdefault(author, set())
        reason = refusal(
            stores.get(author.store_id or ""),
            user_id=author.user_id,
            has_purchased=partial(has_purchased, author),
            has_reviewed=partial(_has_another, item, frozenset(held_by)),
        )
        held_by.add(item.id)  # the next one of this request is the second one
        if reason:
            errors.append({"pointer": f"/{index}", "code": reason.value, "message": reason.message})
    for error in errors:
        SUBMISSIONS.labels(error["code"]).inc()
    if errors:
        raise ProblemError(ProblemKind.REFUSED, f"{errors[0]['message']} Nothing was accepted.", errors)


def _has_another(item: Wanted, held_by: Collection[str]) -> bool:
    return not item.is_edit and any(id != item.id for id in held_by)


def _store(stores: Mapping[str, Store], author: ReviewIdentity) -> Store:
    return stores[author.store_id or ""]


async def reasons_against(services: Services, author: ReviewIdentity) -> list[Refusal]:
    """Every reason for which the store wouldn't take a review by this author."""
    store = await services.stores.get(author.store_id or "")
    services.lookups.forget()
    has_purchased = await purchasers(services, [author])
    written = await services.reviews.written_by([author] if author.user_id is not None else [])
    return list(
        refusals(
            store,
            user_id=author.user_id,
            has_purchased=partial(has_purchased, author),
            has_reviewed=partial(bool, written),
        )
    )
