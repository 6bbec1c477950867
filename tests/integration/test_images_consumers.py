"""Images as the consumers of one worker take them, whatever has waited in Kafka, and for how long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from unittest.mock import AsyncMock
from uuid import uuid4

import pytest

from consumers.images_sweeping import forget_images, sweep_images
from storage.privacy import PersonalData
from tests.support.consumers import Desk, opened_desk
from tests.support.images import picture
from tests.support.service import Servers


@pytest.fixture
async def desk(servers: Servers) -> AsyncIterator[Desk]:
    async with opened_desk(servers) as desk:
        yield desk


async def test_an_upload_that_waited_for_days_waits_for_its_submission(desk: Desk) -> None:
    now = datetime.now(UTC)
    image = await desk.upload(picture(), at=round((now - timedelta(days=2)).timestamp() * 1_000))
    await sweep_images(desk.services, datetime.now(UTC))
    review = desk.review(images=[image])
    await desk.submit(desk.records(review))
    assert [each["id"] for each in (await desk.stored(review["id"])).get("images", ())] == [image]


async def test_an_edit_to_no_images_is_no_repeat_of_what_said_nothing_of_them(desk: Desk) -> None:
    review = desk.review(images=[await desk.upload(picture())])
    first = {name: value for name, value in review.items() if name != "images"}
    await desk.submit(desk.records(first))
    await desk.submit(desk.records(review))
    assert (await desk.stored(review["id"]))["images"]
    await desk.submit(desk.records({**first, "images": []}))
    assert "images" not in await desk.stored(review["id"])


async def test_a_turn_removes_a_part_of_very_many_images(desk: Desk) -> None:
    long_ago, now = datetime.now(UTC) - timedelta(days=30), datetime.now(UTC)
    images = desk.database["images"]
    gone = {"state": "gone", "goneAt": long_ago, "unswept": True}
    await images.insert_many([{"_id": str(uuid4()), **gone} for _ in range(501)])
    for left in (1, 0):
        await sweep_images(desk.services, now)
        assert await images.count_documents({"unswept": True}) == left
    for left, is_done in ((1, False), (0, True)):
        assert await forget_images(desk.services, now, timedelta(days=21)) is is_done
        assert await images.count_documents({}) == left


async def test_an_erased_image_goes_from_a_review_that_claims_it_meanwhile(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, data = await desk.upload(picture(), uploader="anna"), PersonalData(desk.database, "anna")
    monkeypatch.setattr(PersonalData, "images", AsyncMock(return_value=await data.images()))
    review = desk.review(userId=None, images=[image])
    await desk.submit(desk.records(review))
    assert await data.forget_images() == 1
    assert (await desk.stored(review["id"]))["images"] == []
