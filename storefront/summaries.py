"""Endpoints for ratings on pages: of one object, and of several for lists."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Annotated, Final

import orjson
from fastapi import Query, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from api.services import Injected, Services
from api.web.openapi import OPEN_TO_ALL
from api.web.problems import ProblemKind, invalid_at
from api.web.queries import BetweenCommas
from api.web.routes import routes
from domain.ratings import NO_RATINGS, RatingMethod, RatingTally, histogram_by_stars, rating_value
from domain.stores import rating_method
from messaging.schemas import ID_LENGTH, NO_NULL, PATTERN_MESSAGES, Id
from storefront.answers import Answer
from storefront.middleware import OF_STORE
from storefront.responses import cached
from storefront.shoppers import Reading, Visited, store_of

MOST_OBJECTS: Final = 100
"""Maximum number of objects in one request."""

_MOST_CHARACTERS: Final = MOST_OBJECTS * (ID_LENGTH + 1) - 1
"""Maximum length of that many ids, with commas between them."""


class Summary(TypedDict):
    """The rating of an object in a store. `value` follows the store's method, `average` is the arithmetic mean; both
    are 0 without reviews. `histogram` has the number of reviews by stars, null if that is unknown."""

    value: float
    average: float
    reviewCount: int
    histogram: dict[str, int] | None


router: Final = routes(OF_STORE, "Storefront", ProblemKind.NOT_FOUND, also={304: {}})


@router.get("/summaries", response_model=dict[str, Summary], openapi_extra=OPEN_TO_ALL)
async def read_summaries(
    request: Request,
    store: Visited,
    services: Injected,
    entity_type: Annotated[Id, Query(alias="entityType")],
    ids: Annotated[
        str, Query(max_length=_MOST_CHARACTERS, description="Ids of objects, separated by commas"), BetweenCommas
    ],
) -> Response:
    """The ratings of several objects by id, for lists. Ids that contain a comma can't be requested."""
    return await cached(request, partial(_load, services, store.id, entity_type, _ids(ids)))


@router.get("/{entityType}/{entityId}/summary", response_model=Summary, openapi_extra=OPEN_TO_ALL)
async def read_summary(request: Request, shopper: Reading, services: Injected) -> Response:
    """The rating of an object."""
    entity = shopper.entity
    load = partial(_load, services, shopper.store.id, entity.type, [entity.id], only=entity.id)
    return await cached(request, load)


def _ids(text: str) -> Sequence[str]:
    ids = list(dict.fromkeys(each for each in text.split(",") if each))
    if not ids or len(ids) > MOST_OBJECTS:
        raise invalid_at("/ids", "too-long" if ids else "missing", f"Send 1 to {MOST_OBJECTS} ids, separated by commas")
    if any(len(id) > ID_LENGTH for id in ids):
        raise invalid_at("/ids", "string-too-long", f"An id has at most {ID_LENGTH} characters")
    if "\0" in text:
        raise invalid_at("/ids", "string-pattern-mismatch", PATTERN_MESSAGES[NO_NULL])
    return ids


async def _load(
    services: Services, store_id: str, entity_type: str, ids: Collection[str], *, only: str | None = None
) -> Answer:
    """The summaries of these objects by id; if `only` is one of the ids, the summary of that."""
    store = await store_of(services, store_id)
    general = await services.lookups.general()
    found = await services.lookups.tallies(store_id, entity_type, ids)
    method = rating_method(general, store)
    summaries = {id: summary(found.get(id, RatingTally()), method) for id in ids}
    content = summaries if only is None else summaries[only]
    return Answer(orjson.dumps(content), origins=frozenset(store.settings.storefront_origins))


def summary(tally: RatingTally, method: RatingMethod) -> Summary:
    """The summary of a tally, as pages show it."""
    return {
        "value": rating_value(tally, method),
        "average": rating_value(tally, RatingMethod.AVERAGE),
        "reviewCount": tally.count,
        "histogram": histogram_by_stars(tally if tally.count else RatingTally(histogram=NO_RATINGS)),
    }
