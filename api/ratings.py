"""Endpoints of ratings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, NamedTuple

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
from api.routes import PlainRoute
from api.services import Injected, Services
from api.store_bounds import check_store
from domain.ratings import Entity, RatingMethod, RatingTally, rating_value
from domain.stores import rating_method
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
    route_class=PlainRoute,
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
    found = await services.lookups.tallies(request.entity_type, ids)
    tallies = [
        (entity, store_id, of_entity[store_id])
        for entity, of_entity in found.items()
        for store_id in sorted(of_entity, key=_without_a_store_first)
        if caller.may_touch(store_id)
    ]
    shown = await _stores_shown(services, {store_id for _, store_id, _ in tallies})
    return JsonResponse([_rating(entity, store_id, tally, shown[store_id]) for entity, store_id, tally in tallies])


class _Shown(NamedTuple):
    """What the ratings in a store have in common."""

    store_name: str | None
    method: RatingMethod


async def _stores_shown(services: Services, ids: Collection[str | None]) -> Mapping[str | None, _Shown]:
    general = await services.lookups.general()
    stores = await services.lookups.stores({id for id in ids if id is not None})
    return {id: _Shown(store_name(id, stores), rating_method(general, stores.get(id or ""))) for id in ids}


def _without_a_store_first(store_id: str | None) -> str:
    return store_id or ""


def _rating(entity: Entity, store_id: str | None, tally: RatingTally, shown: _Shown) -> EntityRating:
    return {
        "storeName": shown.store_name,
        "storeId": store_id,
        "entityId": entity.id,
        "entityType": entity.type,
        "value": rating_value(tally, shown.method),
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
