"""Ratings as the interface shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import orjson
from typing_extensions import TypedDict

from domain.ratings import Entity, RatingTally, rating_value
from domain.stores import GeneralSettings, Store, rating_method, store_name


class EntityRating(TypedDict):
    """The rating of an object in one store, or without one."""

    storeName: str | None
    storeId: str | None
    entityId: str
    entityType: str
    value: float
    reviewCount: int


class RatingRow(NamedTuple):
    """An `EntityRating`, ready to be sent to everybody who may know of its store."""

    store_id: str | None
    content: orjson.Fragment


def rating_rows(
    entity: Entity,
    tallies: Mapping[str | None, RatingTally],
    stores: Mapping[str, Store],
    general: GeneralSettings,
) -> list[RatingRow]:
    """The ratings of an object by the methods of its stores: first the one without a store, then by the store's id."""
    ids = sorted(tallies, key=lambda store_id: store_id or "") if len(tallies) > 1 else tallies
    return [RatingRow(id, _content(entity, id, tallies[id], stores, general)) for id in ids]


def _content(
    entity: Entity, store_id: str | None, tally: RatingTally, stores: Mapping[str, Store], general: GeneralSettings
) -> orjson.Fragment:
    rating: EntityRating = {
        "storeName": store_name(store_id, stores),
        "storeId": store_id,
        "entityId": entity.id,
        "entityType": entity.type,
        "value": rating_value(tally, rating_method(general, stores.get(store_id or ""))),
        "reviewCount": tally.count,
    }
    return orjson.Fragment(orjson.dumps(rating))
