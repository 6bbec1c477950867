"""Rating documents: only the needed fields are read, and a damaged document doesn't affect others."""

from datetime import UTC, datetime
from functools import partial
from typing import Final

import orjson
import pytest
from pymongo import monitoring

from api.lookups import Lookups
from domain.ratings import Entity, RatingTally, TallyKey
from storage.database import in_transaction
from storage.ratings.objects import RatedObjectRepository
from storage.ratings.repository import RatingRepository
from storage.repositories import Repositories
from tests.support.consumers import Desk
from tests.support.ranges import FilterRecorder, recorded_database
from tests.support.service import Json, Servers, own_database

CAMERA: Final = Entity("Product", "camera")
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


class ReadFields(FilterRecorder):
    """Fields of tallies requested by each query."""

    def __init__(self) -> None:
        super().__init__(["ratings"])
        self.fields: list[set[str]] = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if event.command.get("find") == "ratings":
            shown: Json = event.command.get("projection", {})
            self.fields.append({name for name, is_shown in shown.items() if is_shown})


@pytest.mark.parametrize("with_histogram", [False, True])
async def test_ratings_are_read_without_object_names(servers: Servers, *, with_histogram: bool) -> None:
    recorder = ReadFields()
    async with recorded_database(servers, recorder) as database:
        ratings, tally = RatingRepository(database), RatingTally.of([400])
        await in_transaction(database, partial(ratings.add, {TallyKey(CAMERA, "a"): tally}))
        rated = RatedObjectRepository(database)
        await rated.save_names([(each, "A camera with a long name") for each in await rated.awaiting_names(1)])
        recorder.fields.clear()
        await in_transaction(database, partial(ratings.add, {TallyKey(CAMERA, "a"): tally}))
        await in_transaction(database, partial(ratings.recount, CAMERA, NOW))
        assert await ratings.of_entities(CAMERA.type, [CAMERA.id], with_histogram=with_histogram) == {}
        assert [each async for each in ratings.differences()] == []
        assert len(recorder.fields) > 3
        for fields in recorder.fields:
            assert fields, "read the whole document"
            assert not fields & {"name", "listKey", "searchKeys"}
        assert ("histogram" in recorder.fields[2]) is with_histogram


async def test_stores_are_shown_without_reading_their_moderation_rules(servers: Servers) -> None:
    """An object with ratings in thousands of stores would have the API read all their lists of words."""
    rules = [{"id": "links", "kind": "links", "outcome": "hold"}]
    async with own_database(servers) as database:
        settings = {"ratingCalculationMethod": "wilson", "moderationRules": rules}
        await database["stores"].insert_one({"_id": "a", "name": "A", "settings": settings})
        of = Repositories(database)
        lookups = Lookups(of.ratings, of.stores, of.objects, of.reviews)
        await in_transaction(database, partial(of.ratings.add, {TallyKey(CAMERA, "a"): RatingTally.of([400])}))
        ((row,),) = (await lookups.ratings(CAMERA.type, [CAMERA.id], with_histogram=False)).values()
        rating = orjson.loads(orjson.dumps(row.content))
        assert (rating["storeName"], rating["value"] < 4) == ("A", True), "by the method of the store"
        shown = [(await lookups.stores(["a"]))["a"], *await of.stores.all()]
        assert [store.settings.moderation_rules for store in shown] == [(), ()]
        assert len((await lookups.stores_for_rules(["a"]))["a"].settings.moderation_rules) == 1
        await database["stores"].update_one({"_id": "a"}, {"$set": {"name": "B"}})
        lookups.forget()
        assert (await lookups.stores(["a"]))["a"].name == "B"


@pytest.mark.parametrize(
    ("damage", "shown"),
    [
        ({"sumHundredths": None}, RatingTally(1, 0, (0, 0, 0, 1, 0))),
        ({"sumHundredths": "400"}, RatingTally(1, 0, (0, 0, 0, 1, 0))),
        ({"count": "1"}, RatingTally(0, 400, None)),
        ({"histogram": 5}, RatingTally(1, 400, None)),
        ({"histogram": [1]}, RatingTally(1, 400, None)),
        ({"histogram": ["0", 0, 0, 1, 0]}, RatingTally(1, 400, None)),
    ],
)
@pytest.mark.long
async def test_damaged_tally_does_not_affect_others(desk: Desk, damage: Json, shown: RatingTally) -> None:
    first, second = desk.review(rating=4), desk.review(rating=5)
    neighbour = {**desk.review(rating=3), "EntityId": "neighbour"}
    await desk.submit(desk.records(first, second, neighbour))
    await desk.moderate(("approve", first["id"]), ("approve", neighbour["id"]))
    await desk.database["ratings"].update_one({"entityId": desk.product}, {"$set": damage})

    found = await desk.services.ratings.of_entities("Product", [desk.product, "neighbour"], with_histogram=True)
    assert found.pop("neighbour") == {None: RatingTally.of([300])}
    assert found == ({desk.product: {None: shown}} if shown.count else {}), "found despite a count that isn't a number"
    ((key, stored, counted),) = [each async for each in desk.services.ratings.differences()]
    assert (key.entity.id, stored, counted) == (desk.product, shown, RatingTally.of([400]))

    await desk.moderate(("approve", second["id"]))
    (tally,) = (await desk.services.ratings.of_entities("Product", [desk.product])).values()
    assert (tally[None].count, tally[None].sum) == (2, 900)
    assert await desk.stored(second["id"]) != {}
    assert [kind for kind, _ in desk.events()][-2:] == ["ReviewApproved", "RatingChanged"]
