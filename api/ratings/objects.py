"""Endpoints of rated objects: a search by name, and one object with its trend."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query
from pydantic import Field, TypeAdapter

from api import examples
from api.auth.permissions import RatingReader
from api.ratings.objects_rows import (
    RatedObjectDetails,
    RatedObjectList,
    RatedObjectRow,
    rated_object_row,
    trend_weeks,
)
from api.services import Injected, Services
from api.stores.bounds import stores_to_search
from api.web.bodies import JsonBody
from api.web.cursors import cursor, position_in, position_in_order, unknown_cursor
from api.web.openapi import problems
from api.web.paging import DEFAULT_TAKE, MAX_TAKE, After
from api.web.problems import ProblemKind, not_found
from api.web.responses import JsonResponse
from api.web.routes import routes
from domain.ratings import Entity
from domain.ratings_names import key_of, position_in_search
from messaging.schemas import Message, OptionalId, Phrase
from storage.ratings.objects import BY_STORE, MOST_FOUND, RatedObject

_MOST_TAKEN: Final = 100


class RatedObjectRequest(Message):
    """Criteria of a list of rated objects. A field that is null, empty or missing doesn't restrict the list."""

    search_phrase: Annotated[
        Phrase | None, Field(description="The exact id, or words of the name in their order, from the start of a word")
    ] = None
    store_id: Annotated[OptionalId, Field(description="Id of a store")] = None
    take: Annotated[int, Field(ge=1, le=_MOST_TAKEN, description="Maximum number of results")] = DEFAULT_TAKE
    after: After = None

    def position(self) -> str:
        """The position after which the page begins. Raises ProblemError if the cursor isn't of this list."""
        match position_in(self.after, self.list()) if self.after else [""]:
            case [str(position)]:
                return position
        raise unknown_cursor()

    def list(self) -> Any:
        """The description of the list that its cursors belong to."""
        return ["objects", self.search_phrase, self.store_id]


RATED_OBJECTS: Final = JsonBody(TypeAdapter(RatedObjectRequest), examples.RATED_OBJECTS)

router: Final = routes("/api/rating/objects", "Ratings")


@router.post("", response_model=RatedObjectList)
async def list_rated_objects(
    caller: RatingReader, request: Annotated[RatedObjectRequest, Depends(RATED_OBJECTS)], services: Injected
) -> JsonResponse:
    """List rated objects by name, with the ratings by both methods: a row for each store. Changes of names take
    seconds."""
    stores = stores_to_search(caller, request.store_id)
    after = request.position()
    with await services.pages.rows(MOST_FOUND if request.search_phrase else request.take):
        found, is_partial = await _find(services, request, stores, after)
        page = found[: request.take]
        fields: dict[str, Any] = {"isPartial": is_partial}
        if len(found) > len(page):
            fields["next"] = cursor([page[-1][0]], request.list())
        return JsonResponse({**fields, "results": await _rows(services, [each for _, each in page])})


@router.get(
    "/{entityType}/{entityId:path}", response_model=RatedObjectDetails, responses=problems(ProblemKind.NOT_FOUND)
)
async def read_rated_object(
    caller: RatingReader,
    entity_type: Annotated[str, Path(alias="entityType")],
    entity_id: Annotated[str, Path(alias="entityId")],
    services: Injected,
    store_id: Annotated[OptionalId, Query(alias="storeId", description="Id of a store")] = None,
    take: Annotated[int | None, Query(ge=1, le=MAX_TAKE, description="Maximum number of ratings; missing: all")] = None,
    after: Annotated[After, Query()] = None,
) -> JsonResponse:
    """One object: its ratings by store, or a page of them, and its approved reviews of the last twelve weeks."""
    entity, stores = Entity(entity_type, entity_id), stores_to_search(caller, store_id)
    listed = ["object", *entity, store_id]
    position = position_in_order(after, listed, BY_STORE, {}) if after else None
    rated, pages = services.rated_objects, services.pages
    with await (pages.rows(take) if take else pages.piece(await rated.size_of_entity(entity, stores))):
        found = await rated.of_entity(entity, stores, after=position, take=take and take + 1)
        if not found and position is None:
            raise not_found("rated object")
        ratings = found[:take]
        rows, trend = await asyncio.gather(_rows(services, ratings), rated.trend(entity, stores, datetime.now(UTC)))
        more = {"next": cursor([ratings[-1].key.store_id], listed)} if len(found) > len(ratings) else {}
        return JsonResponse(
            {
                "entityId": entity_id,
                "entityType": entity_type,
                "entityName": next((each.name for each in ratings if each.name), None),
                "ratings": rows,
                **more,
                "trend": {"isPartial": trend.is_partial, "weeks": trend_weeks(trend)},
            }
        )


async def _find(
    services: Services, request: RatedObjectRequest, stores: Collection[str] | None, after: str
) -> tuple[Sequence[tuple[str, RatedObject]], bool]:
    """The rated objects of a page with their positions, one more than it takes if there are more; and True if the
    search stopped before it had seen all."""
    wanted = request.take + 1
    if not request.search_phrase:
        listed = await services.rated_objects.page(stores, after=after, take=wanted)
        return [(each.position, each) for each in listed], False
    phrase = key_of(request.search_phrase)
    found, is_partial = await services.rated_objects.search(phrase, stores)
    placed = ((position_in_search(phrase, each.position), each) for each in found)
    return sorted((each for each in placed if each[0] > after), key=lambda each: each[0])[:wanted], is_partial


async def _rows(services: Services, rated: Sequence[RatedObject]) -> list[RatedObjectRow]:
    general = await services.lookups.general()
    stores = await services.lookups.stores(each.key.store_id for each in rated)
    return [rated_object_row(each, stores, general) for each in rated]
