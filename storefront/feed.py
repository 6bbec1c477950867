"""The endpoints of a store's feed of product reviews for search engines."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from fastapi import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from api.auth.permissions import client_address
from api.services import Injected, Services
from api.web.openapi import OPEN_TO_ALL
from api.web.pages import ROW_BYTES
from api.web.problems import ProblemKind
from api.web.routes import routes
from domain.feed import MOST_BYTES, feed_bytes, is_in_feed, product_url, review_element
from domain.objects import ObjectKey, description
from domain.reviews import Review, ReviewStatus
from domain.stores import Store
from storage.reviews.search import ReviewSearch
from storefront.feed_files import Elements, one_file, zipped
from storefront.middleware import OF_STORE
from storefront.reviews import whole
from storefront.shoppers import Visited

_BATCH: Final = 100
"""Reviews per batch. Between batches other requests get their turn, and no cursor is open."""

_ZIP: Final = "product-reviews.zip"

FeedFiles = Callable[[str, AsyncIterator[Elements]], AsyncIterator[bytes]]

router: Final = routes(OF_STORE, "Storefront", ProblemKind.NOT_FOUND)


def _response_schema(media_type: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"content": {media_type: {"schema": {"type": "string"}}}}}


@router.get(
    "/product-reviews.xml",
    response_class=StreamingResponse,
    responses={
        **_response_schema("application/xml"),
        307: {"description": f"Too large for one file: redirects to {_ZIP}"},
    },
    openapi_extra=OPEN_TO_ALL,
)
async def read_feed(request: Request, store: Visited, services: Injected) -> Response:
    """Google's feed of product reviews: all approved ones of the store in one file, or a redirect to the zip if that
    would be larger than 100 MB."""
    extent = await services.store_counts.extent_of_feed(store.id)
    if feed_bytes(*extent) > MOST_BYTES:
        return RedirectResponse(_ZIP)
    return await _stream_feed(request, store, services, one_file, "application/xml")


@router.get(
    f"/{_ZIP}",
    response_class=StreamingResponse,
    responses=_response_schema("application/zip"),
    openapi_extra=OPEN_TO_ALL,
)
async def read_zipped_feed(request: Request, store: Visited, services: Injected) -> Response:
    """Google's feed of product reviews in a zip of files of at most 100 MB each."""
    return await _stream_feed(request, store, services, zipped, "application/zip")


async def _stream_feed(
    request: Request, store: Store, services: Services, files: FeedFiles, media_type: str
) -> Response:
    content = files(store.name or store.id, _batches(services, store, f"{request.base_url}api/images/"))
    client, size = client_address(request), _BATCH * ROW_BYTES
    return await services.pages.export(client, size, content, media_type, slots=services.feeds)


async def _batches(services: Services, store: Store, image_root: str) -> AsyncIterator[Elements]:
    """All approved reviews in batches, newest first."""
    search = ReviewSearch(statuses=[ReviewStatus.APPROVED], store_id=store.id, take=_BATCH)
    while True:
        async with services.pages.turns:
            page = await services.reviews.search(search)
            with await services.pages.piece(sum(page.long_texts.values())):
                batch = await _elements(services, await whole(services, page), image_root)
        yield batch
        if page.end is None:
            return
        search = replace(search, after=page.end)


async def _elements(services: Services, reviews: Sequence[Review], image_root: str) -> Elements:
    of_products = [
        (review, ObjectKey(review.entity, review.store_id)) for review in reviews if is_in_feed(review.entity.type)
    ]
    objects = await services.objects.undamaged({object_key for _, object_key in of_products})
    elements = []
    for review, object_key in of_products:
        about = description(objects, object_key)
        if url := product_url(about):
            elements.append(review_element(review, about, url, image_root))
    return Elements("".join(elements).encode(), len(of_products) - len(elements))
