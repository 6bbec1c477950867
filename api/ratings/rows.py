"""Ratings as the API shows them."""

from collections.abc import Mapping
from typing import NamedTuple, NotRequired

import orjson
from typing_extensions import TypedDict

from domain.ratings import Entity, RatingTally, histogram_by_stars, rating_value
from domain.stores import GeneralSettings, Store, rating_method, store_name


class EntityRating(TypedDict):
    """The rating of an object in one store, or without one. `histogram`, if requested: the number of reviews by stars,
    `1` to `5`; null in a rating from before histograms were counted."""

    storeName: str | None
    storeId: str | None
    entityId: str
    entityType: str
    value: float
    reviewCount: int
    histogram: NotRequired[dict[str, int] | None]


class RatingRow(NamedTuple):
    """An `EntityRating` as JSON, for all callers who may see its store."""

    store_id: str | None
    content: orjson.Fragment


def rating_rows(
    entity: Entity,
    tallies: Mapping[str | None, RatingTally],
    stores: Mapping[str, Store],
    general: GeneralSettings,
    *,
    with_histogram: bool,
) -> list[RatingRow]:
    """The ratings of an object by the methods of its stores: the one without a store first, then by store id."""
    rows = []
    for store_id, tally in sorted(tallies.items(), key=lambda each: each[0] or ""):
        rating: EntityRating = {
            "storeName": store_name(store_id, stores),
            "storeId": store_id,
            "entityId": entity.id,
            "entityType": entity.type,
            "value": rating_value(tally, rating_method(general, stores.get(store_id or ""))),
            "reviewCount": tally.count,
        }
        if with_histogram:
            rating["histogram"] = histogram_by_stars(tally)
        rows.append(RatingRow(store_id, orjson.Fragment(orjson.dumps(rating))))
    return rows
