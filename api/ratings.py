"""Endpoints of ratings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from api import examples
from api.bodies import json_body
from api.commands import CommandAnswer, Commanded, carry_out
from api.documents import command, problems, request_body
from api.permissions import RatingCalculator, RatingReader
from api.problems import ProblemKind
from api.responses import JsonResponse
from api.review_rows import store_name
from api.services import Injected
from api.store_bounds import check_store
from domain.ratings import RatingTally, TallyKey, rating_value
from domain.stores import GeneralSettings, Store, rating_method
from messaging.schemas import MAX_ITEMS, Id, Message, OptionalId
from messaging.topics import Topic


class EntityRatingRequest(Message):
    """The objects whose ratings are asked for."""

    entity_ids: Annotated[list[Id], Field(max_length=MAX_ITEMS)]
    entity_type: Id


class EntityRating(TypedDict):
    """The rating of an object in one store, or without one."""

    storeName: str | None
    storeId: str | None
    entityId: str
    entityType: str
    value: float
    reviewCount: int


ENTITY_RATING: TypeAdapter[EntityRatingRequest] = TypeAdapter(EntityRatingRequest)

router = APIRouter(
    prefix="/api/rating",
    tags=["Ratings"],
    responses=problems(ProblemKind.MALFORMED_JSON, ProblemKind.VALIDATION, ProblemKind.UNAVAILABLE),
)


@router.post(
    "/entityRating",
    response_model=list[EntityRating],
    openapi_extra=request_body(ENTITY_RATING, {"A product": examples.ENTITY_RATING}),
)
async def list_entity_ratings(
    caller: RatingReader,
    request: Annotated[EntityRatingRequest, Depends(json_body(ENTITY_RATING))],
    services: Injected,
) -> JsonResponse:
    """The ratings of objects: one for each store in which an object has approved reviews, and one without a store."""
    ids = list(dict.fromkeys(request.entity_ids))
    if not ids:
        return JsonResponse([])
    tallies, general = await asyncio.gather(
        services.lookups.tallies(request.entity_type, ids), services.lookups.general()
    )
    tallies = {key: tally for key, tally in tallies.items() if caller.may_touch(key.store_id)}
    stores = await services.lookups.stores({key.store_id for key in tallies if key.store_id is not None})
    place = {id: index for index, id in enumerate(ids)}
    keys = sorted(tallies, key=lambda key: (place[key.entity.id], key.store_id is not None, key.store_id or ""))
    return JsonResponse([entity_rating(key, tallies[key], stores, general) for key in keys])


def entity_rating(
    key: TallyKey, tally: RatingTally, stores: Mapping[str, Store], general: GeneralSettings
) -> EntityRating:
    """A tally as the interface shows it, by the method of its store."""
    store = stores.get(key.store_id) if key.store_id is not None else None
    return {
        "storeName": store_name(key.store_id, stores),
        "storeId": key.store_id,
        "entityId": key.entity.id,
        "entityType": key.entity.type,
        "value": rating_value(tally, rating_method(general, store)),
        "reviewCount": tally.count,
    }


@router.post(
    "/calculateStore",
    status_code=202,
    response_model=CommandAnswer,
    responses={200: {"model": CommandAnswer}},
    openapi_extra=command(),
)
async def calculate_store(
    caller: RatingCalculator,
    store_id: Annotated[OptionalId, Query(alias="storeId", description="Empty: everything")],
    command: Commanded,
    services: Injected,
) -> JsonResponse:
    """Count the ratings of a store anew, from its reviews."""
    check_store(caller, store_id)
    message = services.envelope.wrap(
        services.topics.name(Topic.REVIEW_CHANGES),
        store_id or "*",
        "rating.recount",
        {"kind": "recount-store", "storeId": store_id, **command.marks},
    )
    return await carry_out(services, command, [store_id or ""], [message])
