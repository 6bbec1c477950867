"""Checks of a caller's bounds: its stores, and the authors that it may write as."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TypeVar

from api.auth.permissions import forbidden
from api.services import Services
from api.web.problems import ItemError, ProblemKind, not_found, nothing_accepted
from domain.orders import Order
from domain.permissions import Caller
from domain.returns import Return
from domain.reviews import Review
from messaging.reviews import SubmittedReview
from storage.feedback.repository import ReviewBrief
from storage.orders.search import OrderSearch
from storage.returns.search import ReturnSearch
from storage.reviews.search import ReviewSearch

Search = TypeVar("Search", OrderSearch, ReturnSearch, ReviewSearch)
Found = TypeVar("Found", Order, Return, Review, ReviewBrief)


def check_store(caller: Caller, store_id: str | None) -> None:
    """Raise ProblemError unless the caller may access this store; None (no store in particular) is for unbound
    callers."""
    if not caller.may_touch(store_id):
        raise forbidden(
            "Your credential is bound to certain stores, and this is not one of them."
            if store_id is not None
            else "Your credential is bound to certain stores. Send the `storeId` of one of them."
        )


def check_unbound(caller: Caller) -> None:
    """Raise ProblemError if the caller is bound to stores: its request concerns all of them."""
    if caller.stores is not None:
        raise forbidden("This concerns all stores, but your credential is bound to certain ones.")


def stores_to_search(caller: Caller, store_id: str | None) -> Collection[str] | None:
    """The stores that a search is restricted to: the named one, else those of the caller; None for all. Raises
    ProblemError if the caller may not access the named one."""
    if store_id is None:
        return caller.stores
    check_store(caller, store_id)
    return [store_id]


def within(caller: Caller, search: Search) -> Search:
    """The search, restricted to the caller's stores. Raises ProblemError if it names another store."""
    if search.store_id is not None:
        check_store(caller, search.store_id)
    return replace(search, stores=caller.stores)


def visible_to(caller: Caller, found: Found | None, what: str) -> Found:
    """The thing that was found. Raises ProblemError, the same one if there is none and if it is of another store."""
    if found is None or not caller.may_touch(found.store_id):
        raise not_found(what)
    return found


def check_author(caller: Caller, user_id: str | None) -> None:
    """Raise ProblemError if the caller acts for another user, and may not."""
    if not caller.may_write_as(user_id):
        raise forbidden("You may only do this for yourself, not for another user.")


def check_submissions(caller: Caller, reviews: Sequence[SubmittedReview], by_others: Collection[int]) -> None:
    """Raise ProblemError if one of these reviews is for a store or by an author that isn't the caller's.

    Those at the indexes `by_others` may be by anyone: the caller edits as a moderator, or a token proves the author.
    """
    errors: list[ItemError] = []
    for index, review in enumerate(reviews):
        if not caller.may_touch(review.store_id):
            message = "You may not submit reviews to this store, or without a store"
            errors.append({"pointer": f"/{index}/storeId", "code": "other-store", "message": message})
        if index not in by_others and not caller.may_write_as(review.user_id):
            message = "You may not submit reviews of another user"
            errors.append({"pointer": f"/{index}/userId", "code": "other-user", "message": message})
    if errors:
        raise nothing_accepted(ProblemKind.FORBIDDEN, errors)


async def check_review(services: Services, caller: Caller, id: str) -> None:
    """Raise ProblemError if the review that the path names belongs to another store; otherwise as `check_reviews`."""
    await check_reviews(services, caller, [id], lambda _: "")


async def check_reviews(services: Services, caller: Caller, ids: Sequence[str], pointer: Callable[[int], str]) -> None:
    """Raise ProblemError if one of these reviews belongs to another store. Unknown ones pass: their command carries the
    caller's stores, and is decided once they are known. `pointer` tells where the request names an id, by its index."""
    if caller.stores is None:
        return
    stores = await services.reviews.store_ids(ids)
    others = [id for id in dict.fromkeys(ids) if id in stores and not caller.may_touch(stores[id])]
    message = "This review belongs to another store"
    errors: list[ItemError] = [
        {"pointer": pointer(ids.index(id)), "code": "other-store", "message": message} for id in others
    ]
    if errors:
        raise nothing_accepted(ProblemKind.FORBIDDEN, errors)


def by(caller: Caller) -> dict[str, str]:
    """The field `user` of a message; empty for a caller without a subject."""
    return {} if caller.subject is None else {"user": caller.subject}


def stores_of(caller: Caller) -> dict[str, list[str]]:
    """The field `stores` of a message; empty for a caller that isn't bound to stores."""
    return {} if caller.stores is None else {"stores": sorted(caller.stores)}
