"""Checks the ratings that the API and the storefront show."""

from collections import defaultdict

from tests.chaos.clients import Http
from tests.chaos.difference import Difference
from tests.chaos.model import Json, Model
from tests.chaos.reading import parts
from tests.support.ratings import histogram

_NO_RATING = (0, 0.0, None)
_EMPTY_SUMMARY = (0, 0.0, histogram([]))


async def wrong_ratings(http: Http, model: Model) -> list[Difference]:
    """The API shows the expected count, average and histogram of each object and store."""
    expected = model.ratings()
    entities = sorted({review.entity for review in model.reviews.values()})
    shown: dict[tuple[str, str | None], Json] = {}
    for part in parts(entities, 200):
        wanted = {"entityIds": part, "entityType": "Product", "histogram": True}
        answer = await http.send("POST", "/api/rating/entityRating", wanted)
        shown |= {(rating["entityId"], rating["storeId"]): rating for rating in answer.body}
    found = []
    for key in expected.keys() | shown.keys():
        wanted_rating = expected.get(key, _NO_RATING)
        rating = shown.get(key)
        actual = (rating["reviewCount"], rating["value"], rating["histogram"]) if rating else _NO_RATING
        if actual != wanted_rating:
            found.append(Difference("wrong", key[0], f"rating of {key}: {actual}, expected {wanted_rating}"))
    return found


async def wrong_summaries(http: Http, model: Model) -> list[Difference]:
    """The storefront shows the expected ratings of each store, also of objects without an approved review."""
    entities: dict[str, set[str]] = defaultdict(set)
    expected = model.ratings()
    for review in model.reviews.values():
        if review.store is not None:
            entities[review.store].add(review.entity)
    found = []
    for store, ids in entities.items():
        for part in parts(sorted(ids), 100):
            path = f"/storefront/v1/{store}/summaries?entityType=Product&ids={','.join(part)}"
            answer = await http.send("GET", path)
            for entity in part:
                row = answer.body[entity]
                actual = row["reviewCount"], row["average"], row["histogram"]
                wanted = expected.get((entity, store), _EMPTY_SUMMARY)
                if actual != wanted:
                    what = f"summary {actual}, expected {wanted}"
                    found.append(Difference("wrong", entity, what))
    return found
