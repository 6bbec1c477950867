"""Lookups by the API of the uploads that submissions reference."""

import asyncio
from collections.abc import Collection
from typing import cast
from uuid import uuid4

import pytest
from obstore.exceptions import GenericError

from api.images_checks import check_images
from api.reviews.edits import Wanted
from api.services import Services
from api.web.problems import MAX_ERRORS, ProblemError
from domain.images import StoredImage
from messaging.reviews import SubmittedReview
from tests.support.app import REVIEW


class _Store:
    """An image store, and a database without images; counts lookups."""

    def __init__(self, uploads: Collection[str] = (), *, is_away: bool = False) -> None:
        self.images = self.image_files = self.image_store_check = self
        self.is_away = is_away
        self.uploads = uploads
        self.asked = self.at_once = self.most_at_once = 0

    async def run(self) -> None:
        """Pass as the store used before."""

    async def of_ids(self, ids: Collection[str]) -> dict[str, StoredImage]:
        return {}

    async def has_upload(self, id: str) -> bool:
        if self.is_away:
            raise GenericError("no route to host")
        self.asked += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        return id in self.uploads


def _reviews(count: int, images: int) -> dict[int, Wanted]:
    """Reviews at every second index of a request, each with its own images."""
    named = [{**REVIEW, "images": tuple(str(uuid4()) for _ in range(images))} for _ in range(count)]
    return {2 * n: Wanted(f"r{n}", SubmittedReview.model_validate(each)) for n, each in enumerate(named)}


async def _refused_pointers(store: _Store, wanted: dict[int, Wanted]) -> list[str]:
    with pytest.raises(ProblemError) as refused:
        await check_images(cast(Services, store), wanted)
    assert {error["code"] for error in refused.value.errors} == {"unknown-image"}
    return [error["pointer"] for error in refused.value.errors]


async def test_image_lookups_stop_at_the_maximum_number_of_errors() -> None:
    store = _Store()
    assert await _refused_pointers(store, _reviews(1_000, 5)) == [f"/{2 * n}/images" for n in range(MAX_ERRORS)]
    assert store.asked == 5 * MAX_ERRORS
    assert 1 < store.most_at_once <= 50


async def test_every_review_is_checked_below_the_error_limit() -> None:
    wanted = _reviews(1_000, 1)
    named = [item.review.images[0] for item in wanted.values() if item.review.images]
    store = _Store(named[:-1])
    assert await _refused_pointers(store, wanted) == [f"/{2 * 999}/images"]
    assert store.asked == 1_000
    await check_images(cast(Services, _Store(named)), wanted)


async def test_failed_lookup_is_raised() -> None:
    with pytest.raises(GenericError, match="no route"):
        await check_images(cast(Services, _Store(is_away=True)), _reviews(1, 1))
