"""Documents of ratings: only what counts is read."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Final

import pytest
from pymongo import monitoring

from domain.ratings import Entity, RatingTally, TallyKey
from storage.database import in_transaction
from storage.ratings import RatingRepository
from storage.ratings_objects import RatedObjectRepository
from tests.support.ranges import Questions, heard_database
from tests.support.service import Json, Servers

CAMERA: Final = Entity("Product", "camera")
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


class ReadFields(Questions):
    """The fields of tallies that were asked for, of each query."""

    def __init__(self) -> None:
        super().__init__(["ratings"])
        self.fields: list[set[str]] = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if event.command.get("find") == "ratings":
            shown: Json = event.command.get("projection", {})
            self.fields.append({name for name, is_shown in shown.items() if is_shown})


@pytest.mark.parametrize("with_histogram", [False, True])
async def test_ratings_are_read_without_the_names_of_their_objects(servers: Servers, *, with_histogram: bool) -> None:
    heard = ReadFields()
    async with heard_database(servers, heard) as database:
        ratings, tally = RatingRepository(database), RatingTally.of([400])
        await in_transaction(database, partial(ratings.add, {TallyKey(CAMERA, "a"): tally}))
        rated = RatedObjectRepository(database)
        await rated.name([(each, "A camera with a long name") for each in await rated.unnamed(1)])
        heard.fields.clear()
        await in_transaction(database, partial(ratings.add, {TallyKey(CAMERA, "a"): tally}))
        await in_transaction(database, partial(ratings.recount, CAMERA, NOW))
        assert await ratings.of_entities(CAMERA.type, [CAMERA.id], with_histogram=with_histogram) == {}
        assert [each async for each in ratings.differences()] == []
        assert len(heard.fields) > 3
        for fields in heard.fields:
            assert fields, "the whole document"
            assert not fields & {"name", "listKey", "searchKeys"}
        assert ("histogram" in heard.fields[2]) is with_histogram
