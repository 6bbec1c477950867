"""Give rated objects the names by which they are found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from consumers.services import Services
from domain.objects import ObjectKey, object_name
from storage.ratings_objects import UnnamedTally

_AT_ONCE: Final = 200
_MOST: Final = 5_000
"""In one go; other periodic work has its turn then."""


async def name_rated_objects(services: Services) -> int:
    """Name objects that have been rated, or whose names have changed, by what was told of them, else as their newest
    review does. Returns their number. Several workers may do it: a name that has changed meanwhile stays wanted."""
    named = 0
    while named < _MOST and (wanted := await services.rated_objects.unnamed(_AT_ONCE)):
        await services.rated_objects.name(await _names(services, wanted))
        named += len(wanted)
    return named


async def _names(services: Services, wanted: Sequence[UnnamedTally]) -> list[tuple[UnnamedTally, str | None]]:
    keys = {tally: ObjectKey(tally.key.entity, tally.key.store_id) for tally in wanted}
    told = await services.objects.of_keys(keys.values())
    return [
        (tally, object_name(told, key) or await services.rated_objects.name_in_reviews(tally.key))
        for tally, key in keys.items()
    ]
