"""Checks of a caller's bounds: its stores, and the authors it may write as."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeVar

from api.auth.permissions import forbidden
from api.services import Services
from api.web.problems import ItemError, ProblemError, ProblemKind
from domain.permissions import Caller
from messaging.reviews import SubmittedReview
from storage.orders_search import OrderSearch
from storage.returns_search import ReturnSearch
from storage.reviews_search import ReviewSearch

Search = TypeVar("Search", OrderSearch, ReturnSearch, ReviewSearch)


def check_store(caller: Caller, store_id: str | None) -> None:
    """Raises ProblemError unless what belongs to this store, or to none in particular, is the caller's business."""
    if not caller.may_touch(store_id):
        raise forbidden(
            "You are bound to certain stores, and this is not one of them."
            if store_id is not None
            else "You are bound to certain stores. Name one of them."
        )


def check_unbound(caller: Caller) -> None:
    """Raises ProblemError when the caller is bound to stores: what it asks for concerns all of them."""
    if caller.stores is not None:
        raise forbidden("This concerns all stores, and you are bound to certain ones.")


def within(caller: Caller, search: Search) -> Search:
    """The search, restricted to the caller's stores. Raises ProblemError for one that names another store."""
    if search.store_id is not None:
        check_store(caller, search.store_id)
    return replace(search, stores=caller.stores)


def check_author(caller: Caller, user_id: str | None) -> None:
    """Raises ProblemError when the caller speaks for another user, and mustn't."""
    if not caller.may_write_as(user_id):
        raise forbidden("This is about another user than you.")


def check_submissions(
    caller: Caller, reviews: Sequence[SubmittedReview], by_others: Collection[int] = frozenset()
) -> None:
    """Raises ProblemError when one of these reviews is for a store or by an author that is not the caller's.

    Those at the places `by_others` may be by anybody: the caller edits as a moderator, or a token proves the author.
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
        raise ProblemError(ProblemKind.FORBIDDEN, f"{errors[0]['message']}. Nothing was accepted.", errors)


async def check_reviews(services: Services, caller: Caller, ids: Sequence[str]) -> None:
    """Raises ProblemError when one of these reviews belongs to another store. Unknown ones pass: their command carries
    the caller's stores, and is decided upon when they are known."""
    if caller.stores is None:
        return
    stores = await services.reviews.store_ids(ids)
    errors: list[ItemError] = [
        {"pointer": f"/{index}", "code": "other-store", "message": "This review belongs to another store"}
        for index, id in enumerate(ids)
        if id in stores and not caller.may_touch(stores[id])
    ]
    if errors:
        raise ProblemError(ProblemKind.FORBIDDEN, f"{errors[0]['message']}. Nothing was accepted.", errors)


def by(caller: Caller) -> dict[str, str]:
    """The field `user` of a message; empty for a caller who doesn't say who it is."""
    return {} if caller.subject is None else {"user": caller.subject}


def stores_of(caller: Caller) -> dict[str, list[str]]:
    """The field `stores` of a message; empty for a caller that is bound to no stores."""
    return {} if caller.stores is None else {"stores": sorted(caller.stores)}
