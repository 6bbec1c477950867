"""Images go with an export and come back the same, also when the import is killed half-way; others come back clean."""

from __future__ import annotations

import json
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from domain.images import SIZES
from tests.support.facade import Facade, new_id, submission
from tests.support.hostile_images import EXIF, segment, with_segments
from tests.support.images import IMAGES, Images, opened, picture
from tests.support.service import Json, Service
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def photograph(colour: str, size: tuple[int, int] = (1_700, 900)) -> bytes:
    """A picture with shades, as a telephone takes it."""
    return with_segments(picture(size, "JPEG", colour, quality=95), segment(0xE1, EXIF))


def files_in(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def rows_of(file: Path) -> dict[str, Json]:
    """The reviews in an export, by id."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return {row["id"]: row for row in rows if "id" in row}


async def until_shown(facade: Facade, images: dict[str, list[str]]) -> None:
    """Wait until each of these reviews has its images, rebuilt, in this order."""
    for review, ids in images.items():
        await eventually(
            partial(facade.review, review),
            lambda row, ids=ids: [each["id"] for each in row["images"]] == ids,  # type: ignore[misc]
            deadline_s=60,
        )


async def test_images_come_back_the_same(
    service: Service, facade: Facade, own_service: Service, own_facade: Facade, tmp_path: Path
) -> None:
    product, person, here, there = new_id(), new_id("person"), Images(facade.http), Images(own_facade.http)
    colours = ("red", "green", "blue", "white", "pink")
    a, b, c, d, e = [await here.upload(photograph(colour), userId=person) for colour in colours]
    several, new = await facade.submit(
        submission(product, userId=person, images=[c, a, b]), submission(product, userId=None, images=[d])
    )
    (deleted,) = await facade.submit(submission(product, userId=person, images=[e]))
    await facade.moderate("approve", several)
    await here.moderate("hide", several, a)
    await facade.moderate("delete", deleted)
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    said = (await service.run("export", "-o", str(first))).stderr
    beside = tmp_path / "first.jsonl.images"
    assert f"images are in {beside}." in said
    rows = {id: row for id, row in rows_of(first).items() if row["entityId"] == product}
    first.write_text("".join(line for line in first.open() if json.loads(line).get("entityId") == product))
    assert rows.keys() == {several, new}
    assert [(each["id"], each["hidden"], each["uploader"]) for each in rows[several]["images"]] == [
        (c, False, person),
        (a, True, person),
        (b, False, person),
    ]
    kept = files_in(beside)
    assert not {f"{e}.jpg"} & kept.keys()
    assert all(sha256(kept[f"{i['id']}.jpg"]).hexdigest() == i["sha256"] for r in rows.values() for i in r["images"])

    for _ in range(2):
        said = (await own_service.run("import", str(first))).stdout
        assert "Published 2 reviews; 0 rows are bad.\n4 images belong to them" in said
        await own_facade.until_listed(product, 2)
        await until_shown(own_facade, {several: [c, a, b], new: [d]})
        await eventually(partial(own_facade.review, several), lambda row: row["reviewStatus"] == "Approved")
        await eventually(partial(uploads_of, own_service), lambda left: not left)
        await own_service.idle()
        await own_service.run("export", "-o", str(second))
        assert second.read_bytes() == first.read_bytes()
        ids = [f"{id}.jpg" for id in (a, b, c, d)]
        assert files_in(tmp_path / "second.jsonl.images") == {id: kept[id] for id in ids}
    for id, caching in ((c, "public, no-cache"), (a, "private, no-store"), (d, "private, no-store")):
        for size in map(str, SIZES):
            seen = await own_facade.http.get(f"{IMAGES}/{id}", params={"size": size})
            assert (seen.status_code, seen.headers["cache-control"]) == (200, caching)
            assert max(opened(seen.content).size) == int(size)
    # Its author lent this one to a review without an author.
    assert await there.status(d) == 200
    await own_service.run("privacy", "erase", "--customer", person, "--yes")
    assert [await there.status(id) for id in (a, b, c, d)] == [404] * 4
    said = (await own_service.run("export", "-o", str(second))).stderr
    assert not (tmp_path / "second.jsonl.images").exists()


def uploads_of(service: Service) -> list[Path]:
    """The uploads that are to be rebuilt yet."""
    return [each for each in (service.folder / "images" / "incoming").rglob("*") if each.is_file()]
