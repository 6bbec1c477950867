"""Endpoints of customer reviews: submission, lists, one review, changes, permission to write."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Final

from fastapi import Depends, Query
from pydantic import TypeAdapter
from starlette.responses import Response
from typing_extensions import TypedDict

from api import examples
from api.auth.permissions import Client, ReviewAuthor, ReviewReader, ReviewWriter
from api.commands import Commanded, command_answers
from api.reviews.changes import CHANGES_BYTES, changed_objects, json_array
from api.reviews.counts import count_reviews, counts_by_status
from api.reviews.rows import (
    ReviewDetails,
    ReviewDetailsList,
    ReviewList,
    ReviewRow,
    StatusCounts,
    review_details,
    review_row,
)
from api.reviews.rules import reasons_against
from api.reviews.search import REVIEW_SEARCH, ReviewSearchRequest
from api.reviews.submissions import submit_reviews
from api.services import Injected, Services
from api.stores.bounds import check_author, check_store, visible_to, within
from api.web.bodies import JsonBody
from api.web.openapi import problems
from api.web.pages import page_bytes, pieces_of
from api.web.paging import Since, total_count
from api.web.problems import ProblemKind
from api.web.responses import JsonResponse
from api.web.routes import routes
from domain.permissions import Caller
from domain.ratings import Entity
from domain.reviews import Review, ReviewIdentity, ReviewStatus
from domain.reviews_refusals import Refusal
from domain.stores import Store
from messaging.reviews import SUBMISSIONS, SubmittedReview
from messaging.schemas import Id, Message, OptionalId
from storage.queries import IDS_AT_ONCE, in_batches
from storage.reviews.search import ReviewPage, ReviewSearch, sorts_everything


class ChangesRequest(Message):
    """The start of the period."""

    modified_date: Since


class FeedbackPermission(TypedDict):
    """The answer to `canLeaveFeedback`, with every reason against it."""

    canLeaveFeedback: bool
    reasons: list[Refusal]


NEW_REVIEWS: Final = JsonBody(
    SUBMISSIONS,
    {"One review": examples.SUBMISSION},
    hidden=("commandId", "source", "writtenDate", "hiddenImages", "via", "formerId", "editor"),
)
SEARCH: Final = JsonBody(REVIEW_SEARCH, examples.SEARCHES)
CHANGES: Final = JsonBody(TypeAdapter(ChangesRequest), {"A day": examples.CHANGES})

router: Final = routes("/api/customerReviews", "Reviews")


@router.post("", operation_id="submitReviews", **command_answers(ProblemKind.REFUSED, ProblemKind.ID_TAKEN))
async def submit(
    caller: ReviewWriter,
    reviews: Annotated[list[SubmittedReview], Depends(NEW_REVIEWS)],
    command: Commanded,
    services: Injected,
) -> Response:
    """Submit reviews for moderation: all of them, or none if one is refused. With the id of a stored review, edit that
    one, as its author or as a moderator (`customerReviews:update`). Omitted fields keep their values. A new review
    needs `review` and `rating`."""
    return await submit_reviews(services, caller, command, reviews)


SearchRequest = Annotated[ReviewSearchRequest, Depends(SEARCH)]


@router.post("/reviewList", response_model=ReviewList)
async def list_reviews(caller: ReviewReader, request: SearchRequest, services: Injected) -> Response:
    """List reviews: filtered, sorted, one page at a time."""
    return await _list_page(services, caller, request, review_row)


@router.post("/search", response_model=ReviewDetailsList)
async def search_reviews(caller: ReviewReader, request: SearchRequest, services: Injected) -> Response:
    """List reviews as `reviewList` does, with all their fields."""
    return await _list_page(services, caller, request, review_details)


@router.post("/counts", operation_id="countReviewsByStatus", response_model=StatusCounts)
async def count_by_status(caller: ReviewReader, request: SearchRequest, services: Injected) -> JsonResponse:
    """Count reviews by status; `reviewStatus`, `sort` and paging are ignored."""
    search = within(caller, request.criteria(services.entity_types))
    counts = await counts_by_status(services, search)
    return JsonResponse({status.label: counts[status] for status in ReviewStatus})


async def _list_page(
    services: Services,
    caller: Caller,
    request: ReviewSearchRequest,
    row: Callable[[Review, Mapping[str, Store]], ReviewRow],
) -> Response:
    """One page, with the rows that `row` makes."""
    search = within(caller, request.criteria(services.entity_types))
    with await services.pages.rows(search.take) as room:
        page, stores, total = await _find(services, request, search)
        text = sum(len(review.text) for review in page.reviews)
        room.give_back(down_to=page_bytes(len(page.reviews), text))

        def size(review: Review) -> int:
            return page.long_texts.get(review.id) or len(review.text)

        async def rows(piece: Sequence[Review]) -> list[ReviewRow]:
            return [row(review, stores) for review in await _with_texts(services, piece, page.long_texts)]

        pieces = pieces_of(page.reviews, size) if page.long_texts else [page.reviews]
        about = {"totalCount": total, "next": request.next_page(search, page)}
        return await services.pages.response(room, about, pieces, rows)


async def _find(
    services: Services, request: ReviewSearchRequest, search: ReviewSearch
) -> tuple[ReviewPage, Mapping[str, Store], int | None]:
    """The page of a search, the stores of its reviews, and their total number, if wanted."""
    if sorts_everything(search) and search.phrase is None:
        # Both take long.
        page, total = await asyncio.gather(services.reviews.search(search), _total(services, request, search, None))
        return page, await services.lookups.stores(review.store_id for review in page.reviews), total
    page = await services.reviews.search(search)
    stores, total = await asyncio.gather(
        services.lookups.stores(review.store_id for review in page.reviews),
        _total(services, request, search, len(page.reviews)),
    )
    return page, stores, total


async def _total(
    services: Services, request: ReviewSearchRequest, search: ReviewSearch, found: int | None
) -> int | None:
    if not request.with_total:
        return None
    count = partial(count_reviews, services, search)
    return await total_count(found, search.skip, search.take, count, after=search.after)


async def _with_texts(services: Services, reviews: Sequence[Review], long_texts: Mapping[str, int]) -> Sequence[Review]:
    """Reviews of a list with their long texts; those deleted meanwhile are left out."""
    lengths = {review.id: long_texts[review.id] for review in reviews if review.id in long_texts}
    if not lengths:
        return reviews
    with await services.pages.piece(sum(lengths.values())):
        texts = await services.reviews.texts(lengths)
    present = (review for review in reviews if review.id not in lengths or review.id in texts)
    return [replace(review, text=texts.get(review.id, review.text)) for review in present]


@router.post("/changes", response_model=list[str])
async def list_changes(
    caller: ReviewReader, client: Client, request: Annotated[ChangesRequest, Depends(CHANGES)], services: Injected
) -> Response:
    """The ids of objects whose reviews changed at that moment or later."""
    batches = in_batches(changed_objects(services, request.modified_date, caller.stores), IDS_AT_ONCE)
    return await services.pages.export(client, CHANGES_BYTES, json_array(batches), JsonResponse.media_type)


@router.get("/canLeaveFeedback", response_model=FeedbackPermission)
async def can_leave_feedback(
    caller: ReviewAuthor,
    services: Injected,
    entity_type: Annotated[Id, Query(alias="entityType")],
    entity_id: Annotated[Id, Query(alias="entityId")],
    store_id: Annotated[OptionalId, Query(alias="storeId", description="Empty or missing: no store")] = None,
    user_id: Annotated[OptionalId, Query(alias="userId", description="Empty or missing: anonymous")] = None,
) -> JsonResponse:
    """Check if this author may review this object in this store; without a store, everybody may."""
    check_store(caller, store_id)
    check_author(caller, user_id)
    reasons = await reasons_against(services, ReviewIdentity(Entity(entity_type, entity_id), store_id, user_id))
    return JsonResponse({"canLeaveFeedback": not reasons, "reasons": reasons})


@router.get("/{id}", response_model=ReviewDetails, responses=problems(ProblemKind.NOT_FOUND))
async def read_review(caller: ReviewReader, id: str, services: Injected) -> JsonResponse:
    """One review."""
    review = visible_to(caller, await services.reviews.get(id), "review")
    stores = await services.lookups.stores([review.store_id])
    return JsonResponse(review_details(review, stores))
