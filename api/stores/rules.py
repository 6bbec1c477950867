"""The rules of stores about reviews, applied to the stored settings and purchases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from api.services import Services
from api.web.problems import ItemError, ProblemError, ProblemKind
from domain.orders import Purchase
from domain.ratings import Entity
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


async def check_store_rules(services: Services, reviews: Sequence[SubmittedReview]) -> None:
    """Raises ProblemError when a store doesn't take one of these reviews. Those without a store are taken."""
    authors = {
        index: Author(review.store_id, review.user_id, review.entity)
        for index, review in enumerate(reviews)
        if review.store_id is not None
    }
    if not authors:
        return
    stores = await services.lookups.stores({author.store_id for author in authors.values()})
    has_purchased = await purchasers(
        services,
        (a for a in authors.values() if a.store_id in stores and stores[a.store_id].settings.purchase_required),
    )
    errors: list[ItemError] = []
    for index, author in authors.items():
        store = stores.get(author.store_id) or Store(author.store_id)
        reason = refusal(store, user_id=author.user_id, has_purchased=partial(has_purchased, author))
        if reason:
            errors.append({"pointer": f"/{index}", "code": reason.value, "message": reason.message})
    for error in errors:
        SUBMISSIONS.labels(error["code"]).inc()
    if errors:
        raise ProblemError(ProblemKind.REFUSED, f"{errors[0]['message']} Nothing was accepted.", errors)


async def reasons_against(services: Services, author: Author) -> list[Refusal]:
    """Every reason for which the store wouldn't take a review by this author."""
    store = await services.stores.get(author.store_id) or Store(author.store_id)
    services.lookups.forget()
    has_purchased = await purchasers(services, [author])
    return list(refusals(store, user_id=author.user_id, has_purchased=partial(has_purchased, author)))
