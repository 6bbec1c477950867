"""Lookups by the consumer of the uploads that submissions reference."""

import asyncio
from collections.abc import Collection
from typing import cast
from uuid import uuid4

import pytest
from obstore.exceptions import GenericError

from consumers.images.claims import WantedImages, uploaded_among
from consumers.services import Services
from domain.images import StoredImage
from domain.reviews_facts import Source


class _Store:
    """An image store, and a database without images; counts lookups, and fails after `away_after` of them.
    `is_unmarked`: the store lacks the mark that it had according to the database."""

    def __init__(self, uploads: Collection[str] = (), *, away_after: int = 100_000, is_unmarked: bool = False) -> None:
        self.is_unmarked = is_unmarked
        self.images = self.image_files = self.image_store_mark = self
        self.uploads, self.away_after = uploads, away_after
        self.asked = self.at_once = self.most_at_once = 0

    async def of_ids(self, ids: Collection[str]) -> dict[str, StoredImage]:
        return {}

    async def check(self, files: object) -> None:
        if self.is_unmarked:
            raise GenericError("the volume isn't mounted")

    async def has_upload(self, id: str) -> bool:
        self.asked += 1
        if self.asked > self.away_after:
            raise GenericError("no route to host")
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        return id in self.uploads


def _wanted(source: Source, count: int = 200) -> list[WantedImages]:
    return [WantedImages(f"r{n}", None, source, [str(uuid4()) for _ in range(5)]) for n in range(count)]


@pytest.mark.parametrize(("source", "per_review"), [(Source.KAFKA, 1), (Source.WIDGET, 5), (Source.IMPORT, 5)])
async def test_upload_lookups_are_bounded_and_only_as_needed(source: Source, per_review: int) -> None:
    """All uploads are looked up for reviews that are kept without missing images."""
    store, wanted = _Store(), _wanted(source)
    found = await uploaded_among(cast(Services, store), wanted)
    assert all(len(found.intersection(each.ids)) == 5 - per_review for each in wanted)
    assert store.asked == 200 * per_review
    assert 1 < store.most_at_once <= 16


async def test_existing_uploads_are_found() -> None:
    wanted = _wanted(Source.KAFKA, 20)
    there = {id for each in wanted[:19] for id in each.ids}
    found = await uploaded_among(cast(Services, _Store(there)), wanted)
    assert there <= found
    assert not found.issuperset(wanted[19].ids)


async def test_lookups_stop_when_the_store_is_unavailable() -> None:
    store, wanted = _Store(away_after=20), _wanted(Source.WIDGET)
    found = await uploaded_among(cast(Services, store), wanted)
    assert len(found) == 1_000
    assert store.asked <= 20 + 16


async def test_unmarked_store_loses_no_uploads() -> None:
    wanted = _wanted(Source.KAFKA)
    found = await uploaded_among(cast(Services, _Store(is_unmarked=True)), wanted)
    assert found == {id for each in wanted for id in each.ids}
