"""Indexes follow the settings and the version, without stopping the service."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
from pymongo import DESCENDING, IndexModel

from storage.database import Session
from storage.feedback.reports import COLLECTION as REPORTS
from storage.feedback.reports import reported_reviews
from storage.indexes import IndexNotMadeError, all_indexes, ensure_indexes, finished_indexes, is_as_wanted
from storage.mails import COLLECTION as MAILS
from tests.support.doctor import examined
from tests.support.service import Servers, Service
from tests.support.waiting import eventually


@pytest.mark.long
async def test_init_follows_a_changed_setting(stopped_service: Service) -> None:
    stopped_service.environment["PLAUDIT_KAFKA__RETENTION_DAYS"] = "14"
    output = await examined(stopped_service, code=1)
    assert "fail indexes different from their definition: returns." in output
    assert "`plaudit init` changes them" in output
    await stopped_service.run("init")
    assert "fail indexes" not in await examined(stopped_service)
    async with stopped_service.mongo() as database:
        indexes = await database[MAILS].index_information()
    assert indexes["expiry"]["expireAfterSeconds"] == (2 * 14 + 7) * 86_400


@pytest.mark.long
async def test_differing_indexes_are_replaced_without_duplicates(servers: Servers, tmp_path: Path) -> None:
    async with Service(servers, tmp_path).mongo() as database:
        await ensure_indexes(database, remember_days=7)
        await database["reviews"].drop_index("newest")
        await database["reviews"].create_indexes([IndexModel([("createdDate", DESCENDING)], name="newest")])
        await database["ratings"].drop_index("tally")
        keys = [("entityType", 1), ("entityId", 1), ("storeId", 1)]
        await database["ratings"].create_indexes([IndexModel(keys, name="tally")])
        await database[MAILS].drop_index("expiry")
        await database[MAILS].create_indexes([IndexModel([("doneAt", DESCENDING)], name="expiry")])
        for days in (9, 9, 11):
            await ensure_indexes(database, remember_days=days)
            for collection, models in all_indexes(days).items():
                indexes = await database[collection].index_information()
                matching = [[name for name, found in indexes.items() if is_as_wanted(found, model)] for model in models]
                assert [len(names) for names in matching] == [1] * len(models)
                assert set(indexes) - {"_id_"} == {name for names in matching for name in names}


@pytest.mark.long
async def test_interrupted_replacement_is_completed(stopped_service: Service) -> None:
    """The process was killed after it had created the new index, or may not drop the old one."""
    async with stopped_service.mongo() as database:
        (newest,) = [model for model in all_indexes(7)["reviews"] if model.document["name"] == "newest"]
        await database["reviews"].drop_index("newest")
        await database["reviews"].create_index([("createdDate", DESCENDING)], name="newest")
        await database["reviews"].create_index(list(newest.document["key"].items()), name="newest~")
        assert "warn indexes obsolete, from an earlier version: reviews.newest" in await examined(stopped_service)
        await stopped_service.run("init")
        indexes = await database["reviews"].index_information()
        assert "newest~" in indexes
        assert "newest" not in indexes


@pytest.mark.long
async def test_unfinished_index_is_waited_for(servers: Servers, tmp_path: Path) -> None:
    async with Service(servers, tmp_path).mongo() as database:
        reviews = database["reviews"]

        async def is_being_built() -> bool:
            listing = {"listIndexes": "reviews", "cursor": {}, "includeBuildUUIDs": True}
            found = (await database.command(listing))["cursor"]["firstBatch"]
            return any("buildUUID" in each for each in found)

        async def held_build(session: Session) -> asyncio.Task[None] | None:
            """A build of indexes that isn't finished before the session's transaction is over; None if it was finished
            earlier, as on a busy machine: the next attempt has more reviews."""
            await reviews.drop_indexes()
            await reviews.insert_many([{"entityId": f"{n:0200}"} for n in range(100_000)])
            building = asyncio.create_task(ensure_indexes(database, remember_days=7))
            while not building.done():
                if await is_being_built():
                    await reviews.insert_one({}, session=session)
                    if await is_being_built():
                        return building
                    await session.abort_transaction()
                    await session.start_transaction()
            await building
            return None

        async with database.client.start_session() as session, await session.start_transaction():
            building = await eventually(partial(held_build, session))
            assert building
            again = asyncio.create_task(ensure_indexes(database, remember_days=7))
            done, _ = await asyncio.wait([building, again], timeout=2)
            assert not done
            assert (await finished_indexes(reviews)).keys() == {"_id_"}
            await session.abort_transaction()
        await asyncio.gather(building, again)
        assert "newest" in await finished_indexes(reviews)


async def test_queries_use_replaced_index(servers: Servers, tmp_path: Path) -> None:
    async with Service(servers, tmp_path).mongo() as database:
        await ensure_indexes(database, remember_days=7)
        await database[REPORTS].drop_index("open")
        await database[REPORTS].create_indexes([IndexModel([("reviewId", DESCENDING)], name="open")])
        await ensure_indexes(database, remember_days=7)
        await database[REPORTS].insert_one({"_id": "report", "reviewId": "review", "isOpen": True})
        assert await reported_reviews(database) == ["review"]


@pytest.mark.long
async def test_index_creation_failure_is_reported(servers: Servers, tmp_path: Path) -> None:
    service = Service(servers, tmp_path)
    async with service.mongo() as database:
        await database["ratings"].insert_many([{"entityType": "a", "entityId": "b", "storeId": None} for _ in range(2)])
        with pytest.raises(IndexNotMadeError, match="ratings"):
            await ensure_indexes(database, remember_days=7)
    for command in ("init", "worker"):
        ended = await service.run(command, code=1)
        assert "can't be created" in " ".join((ended.stdout + ended.stderr).split())
        assert "Traceback" not in ended.stdout + ended.stderr
