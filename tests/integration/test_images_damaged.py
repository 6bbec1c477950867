"""Damaged documents of images stop neither an export or erasure of a person nor the removal of other files."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from unittest.mock import AsyncMock

import pytest
from bson import ObjectId

from consumers.images.sweeping import forget_images, sweep_images
from domain.images import SIZES
from storage.images.files import ImageFiles, open_store
from storage.privacy.repository import PersonalData
from tests.support.consumers import Desk
from tests.support.facade import new_id
from tests.support.images import picture
from tests.support.service import Json

DAMAGE: Final[dict[str, Json]] = {
    "state": {"$set": {"state": "faded"}},
    "marks": {"$set": {"seen": 5}},
    "refusal": {"$set": {"refusal": "gossip"}},
}
LONG_AGO: Final = datetime(2020, 1, 1, tzinfo=UTC)
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("damage", DAMAGE)
async def test_damaged_image_of_person_is_shown_and_removed(desk: Desk, damage: str) -> None:
    person = new_id("person")
    damaged, whole = [await desk.upload(picture(), uploader=person) for _ in range(2)]
    await desk.database["images"].update_one({"_id": damaged}, DAMAGE[damage])
    copy = {**(await desk.database["images"].find_one({"_id": whole}) or {}), "_id": ObjectId()}
    await desk.database["images"].insert_one(copy)
    data = PersonalData(desk.database, person)
    assert {each.id for each in await data.images()} == {damaged, whole, copy["_id"]}
    assert await data.forget_images() == 3
    assert await desk.database["images"].distinct("state") == ["gone"]
    assert await desk.database["images"].find_one({"uploader": person}) is None


async def test_image_of_damaged_review_is_removed(desk: Desk) -> None:
    person, reviews = new_id("person"), desk.database["reviews"]
    image, other = [await desk.upload(picture(), uploader=person) for _ in range(2)]
    review = desk.review(userId=person, images=[image, other])
    await desk.submit(desk.records(review))
    await reviews.update_one({"_id": review["id"]}, {"$set": {"status": "Approved"}})
    await desk.database["images"].update_one({"_id": other}, {"$unset": {"uploader": "", "reviewId": ""}})
    assert await PersonalData(desk.database, person).forget_images() == 1
    assert [each["id"] for each in (await desk.stored(review["id"]))["images"]] == [other]


@pytest.mark.parametrize("foreign", [ObjectId(), {"image": 1}])
async def test_image_with_foreign_id_stops_no_removal(desk: Desk, foreign: object, tmp_path: Path) -> None:
    images, files = desk.database["images"], ImageFiles(open_store(str(tmp_path)))
    desk.services.image_files = files
    gone = await desk.upload(picture())
    await images.update_one({"_id": gone}, {"$set": {"state": "gone", "goneAt": LONG_AGO, "unswept": True}})
    await images.insert_one({**(await images.find_one({"_id": gone}) or {}), "_id": foreign})
    awaited = {"state": "awaited", "at": LONG_AGO, "reviewId": "gone"}
    await images.insert_many([{"_id": {"another": foreign}, **awaited}, {"_id": "awaited", **awaited}])
    await sweep_images(desk.services, NOW, AsyncMock(return_value=NOW))
    assert await files.get(gone, SIZES[0]) is None
    await images.update_one({"_id": foreign}, {"$unset": {"unswept": ""}})
    assert await forget_images(desk.services, NOW, timedelta(days=1))
    left = await images.find().to_list()
    assert [(each["_id"], each["state"]) for each in left] == [
        (foreign, "gone"),
        ({"another": foreign}, "awaited"),
        ("awaited", "refused"),
    ]
