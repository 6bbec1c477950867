"""Endpoints of ratings."""

from typing import Annotated, Final

from fastapi import Depends, Query
from pydantic import Field, TypeAdapter
from starlette.responses import Response

from api import examples
from api.auth.permissions import RatingCalculator, RatingReader
from api.commands import Commanded, carry_out, command_answers
from api.ratings.rows import EntityRating
from api.services import Injected
from api.stores.bounds import check_store
from api.web.bodies import JsonBody
from api.web.responses import JsonResponse
from api.web.routes import routes
from messaging.schemas import MAX_ITEMS, Id, Message, OptionalId
from messaging.topics import Topic


class EntityRatingRequest(Message):
    """The objects whose ratings are requested."""

    entity_ids: Annotated[list[Id], Field(max_length=MAX_ITEMS)]
    entity_type: Id
    histogram: Annotated[bool, Field(description="true: include the number of reviews by stars")] = False


ENTITY_RATING: Final = JsonBody(TypeAdapter(EntityRatingRequest), {"A product": examples.ENTITY_RATING})

router: Final = routes("/api/rating", "Ratings")


@router.post("/entityRating", response_model=list[EntityRating])
async def list_entity_ratings(
    caller: RatingReader, request: Annotated[EntityRatingRequest, Depends(ENTITY_RATING)], services: Injected
) -> JsonResponse:
    """The ratings of objects: one for each store in which an object has approved reviews, and one for those without a
    store."""
    ids, lookups = list(dict.fromkeys(request.entity_ids)), services.lookups
    with await services.pages.take(await lookups.bytes_of_ratings(request.entity_type, ids)):
        found = await lookups.ratings(request.entity_type, ids, with_histogram=request.histogram)
        return JsonResponse([row.content for rows in found.values() for row in rows if caller.may_touch(row.store_id)])


@router.post("/calculateStore", **command_answers())
async def calculate_store(
    caller: RatingCalculator,
    store_id: Annotated[OptionalId, Query(alias="storeId", description="Id of the store; empty: all objects")],
    command: Commanded,
    services: Injected,
) -> Response:
    """Recount the ratings of a store from its reviews."""
    check_store(caller, store_id)
    message = services.message(
        Topic.REVIEW_CHANGES,
        store_id or "*",
        "rating.recount",
        {"kind": "recount-store", "storeId": store_id, **command.id_field},
    )
    return await carry_out(services, command, [store_id or ""], [message])
