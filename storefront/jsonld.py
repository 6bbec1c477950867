"""The endpoint for the structured data of an object's page, for search engines."""

from functools import partial
from typing import Any, Final

import orjson
from fastapi import Request
from starlette.responses import Response

from api.services import Injected, Services
from api.web.openapi import OPEN_TO_ALL
from api.web.problems import ProblemKind
from api.web.routes import routes
from domain.jsonld import inside_script, structured_data
from domain.objects import ObjectKey, description
from domain.ratings import Entity, RatingTally
from domain.reviews import ReviewStatus
from storage.reviews.search import ReviewSearch
from storefront.answers import Answer
from storefront.middleware import OF_OBJECT
from storefront.responses import cached
from storefront.reviews import whole
from storefront.shoppers import Reading, store_of

MOST_REVIEWS: Final = 10
"""Maximum number of reviews, the newest ones, beside the rating of all."""

MEDIA_TYPE: Final = "application/ld+json"
_DOCUMENT: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {MEDIA_TYPE: {"schema": {"type": "object", "additionalProperties": True}}}},
    304: {},
}

router: Final = routes(OF_OBJECT, "Storefront", ProblemKind.NOT_FOUND, also=_DOCUMENT)


@router.get("/jsonld", response_class=Response, openapi_extra=OPEN_TO_ALL)
async def read_jsonld(request: Request, shopper: Reading, services: Injected) -> Response:
    """The rating of an object and its newest reviews, for a script element of its page; `{}` if there are none, and for
    organizations and local businesses."""
    return await cached(request, partial(structured_answer, services, shopper.store.id, shopper.entity))


async def structured_answer(services: Services, store_id: str, entity: Entity) -> Answer:
    """The structured data, as JSON that is safe within a script element, to be cached. Raises ProblemError (404)."""
    store = await store_of(services, store_id)
    object_key = ObjectKey(entity, store_id)
    # A request that waits for room reads afterwards, so that its data is current.
    with await services.pages.rows(MOST_REVIEWS):
        tallies = await services.lookups.tallies(store_id, entity.type, [entity.id])
        about = description(await services.objects.undamaged([object_key]), object_key)
        search = ReviewSearch(
            statuses=[ReviewStatus.APPROVED],
            entity_types=[entity.type],
            entity_ids=[entity.id],
            store_id=store_id,
            take=MOST_REVIEWS,
        )
        page = await services.reviews.search(search)
        async with services.pages.long_texts(page.long_texts.values()):
            reviews = await whole(services, page)
            found = structured_data(entity, about, tallies.get(entity.id, RatingTally()), reviews)
            body = inside_script(orjson.dumps(found))
    return Answer(body, MEDIA_TYPE, frozenset(store.settings.storefront_origins))
