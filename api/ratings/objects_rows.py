"""Rated objects as the API shows them."""

from collections.abc import Mapping
from typing import NotRequired

from typing_extensions import TypedDict

from domain.ratings import RatingMethod, histogram_by_stars, rating_value
from domain.ratings_trend import Trend
from domain.stores import GeneralSettings, Store, rating_method, store_name
from domain.timestamps import timestamp
from messaging.schemas import ShownMoment
from storage.ratings.objects import RatedObject


class RatedObjectRow(TypedDict):
    """The rating of an object in one store, or without one. `value` is by the method of the store, `average` and
    `wilson` by either. `histogram` is null in a rating from before histograms were counted."""

    entityId: str
    entityType: str
    entityName: str | None
    storeId: str | None
    storeName: str | None
    reviewCount: int
    value: float
    ratingCalculationMethod: RatingMethod
    average: float
    wilson: float
    histogram: dict[str, int] | None


class RatedObjectList(TypedDict):
    """One page of a list; `next` is the `after` of the next page, if there is one. `isPartial`: the search stopped at
    500 objects, and there are more."""

    isPartial: bool
    next: NotRequired[str]
    results: list[RatedObjectRow]


class TrendWeek(TypedDict):
    """The approved reviews that were created in the week from this Monday on; `average` is null if there are none."""

    since: ShownMoment
    reviewCount: int
    average: float | None


class RatingTrend(TypedDict):
    """The last twelve weeks, the current one last. `isPartial`: only the newest 10,000 reviews of these weeks were
    counted."""

    isPartial: bool
    weeks: list[TrendWeek]


class RatedObjectDetails(TypedDict):
    """One object with its ratings by store, and the trend over all stores, or in the one that is asked for. `next` is
    the `after` of the next page of ratings, if there is one."""

    entityId: str
    entityType: str
    entityName: str | None
    ratings: list[RatedObjectRow]
    next: NotRequired[str]
    trend: RatingTrend


def rated_object_row(rated: RatedObject, stores: Mapping[str, Store], general: GeneralSettings) -> RatedObjectRow:
    """A rated object with the ratings of both methods."""
    store_id, tally = rated.key.store_id, rated.tally
    method = rating_method(general, stores.get(store_id or ""))
    values = {each: rating_value(tally, each) for each in RatingMethod}
    return {
        "entityId": rated.key.entity.id,
        "entityType": rated.key.entity.type,
        "entityName": rated.name,
        "storeId": store_id,
        "storeName": store_name(store_id, stores),
        "reviewCount": tally.count,
        "value": values[method],
        "ratingCalculationMethod": method,
        "average": values[RatingMethod.AVERAGE],
        "wilson": values[RatingMethod.WILSON],
        "histogram": histogram_by_stars(tally),
    }


def trend_weeks(trend: Trend) -> list[TrendWeek]:
    """The weeks of a trend."""
    return [
        {
            "since": timestamp(week.since),
            "reviewCount": week.tally.count,
            "average": rating_value(week.tally, RatingMethod.AVERAGE) if week.tally.count else None,
        }
        for week in trend.weeks
    ]
