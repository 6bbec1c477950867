"""Hostile files, through the same code and store as any upload: each is refused or cleaned, in bounded memory."""

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest

from consumers.images.rebuild import run_child
from domain.findings import Level
from domain.images import SIZES, Rebuilt, UploadRefusal
from plaudit.config import Settings
from plaudit.server_settings import ImageSettings
from plaudit.tools.doctor.images import check_images
from storage.images.files import ImageFiles, open_store
from tests.support.hostile_images import MARKERS, bombs, files_with_metadata, hostile_files
from tests.support.images import opened


async def check(files: ImageFiles, name: str, content: bytes) -> Rebuilt | UploadRefusal:
    """Rebuild a file through the store; returns the answer, of clean files."""
    id = str(uuid4())
    await files.put_upload(id, "0" * 32, content)
    assert await files.has_upload(id), name
    raw = await files.upload(id, "0" * 32)
    assert raw == content, name
    answer = await run_child(raw)
    assert answer is not None, name
    await files.remove_upload(id, "0" * 32)
    assert not await files.has_upload(id), name
    if isinstance(answer, UploadRefusal):
        return answer
    await files.put(id, answer.files)
    for size in SIZES:
        file = await files.get(id, size)
        assert file is not None
        image = opened(file)
        assert (image.format, image.mode, max(image.size) <= size) == ("JPEG", "RGB", True), name
        assert not image.getexif(), name
        assert not {"icc_profile", "comment", "xmp", "exif", "photoshop"} & image.info.keys(), name
        assert not [marker for marker in MARKERS if marker in file], name
    await files.remove([id])
    assert await files.get(id, SIZES[0]) is None
    return answer


async def check_all(
    files: ImageFiles, wanted: list[tuple[str, bytes]], at_once: int = 2
) -> dict[str, Rebuilt | UploadRefusal]:
    """Check files, at most `at_once` concurrently; returns the answers by name."""
    turns = asyncio.Semaphore(at_once)

    async def one(name: str, content: bytes) -> tuple[str, Rebuilt | UploadRefusal]:
        async with turns:
            return name, await check(files, name, content)

    return dict(await asyncio.gather(*(one(*each) for each in wanted)))


@pytest.mark.long
async def test_metadata_is_removed_and_bombs_are_refused(tmp_path: Path) -> None:
    files = ImageFiles(open_store(str(tmp_path)))
    clean = await check_all(files, list(files_with_metadata())[:8:2])
    assert all(isinstance(each, Rebuilt) for each in clean.values())
    small = [each for each in bombs() if not each[0].startswith("large")]
    refused = await check_all(files, small[:4] + small[-2:])
    assert refused["frames.webp"] == refused["frames.png"] == UploadRefusal.ANIMATED
    assert refused["30000x30000.png"] == refused["30000x30000.jpg"] == UploadRefusal.TOO_LARGE


@pytest.mark.slow
async def test_doctor_checks_bucket(bucket: str) -> None:
    for store, level in ((bucket, Level.OK), ("s3://no-such-bucket/plaudit", Level.FAIL)):
        (finding,) = [each async for each in check_images(Settings(images=ImageSettings(store=store)))]
        assert finding.level is level, finding.text


@pytest.mark.slow
async def test_25_megapixels_are_accepted(tmp_path: Path) -> None:
    found = await check_all(
        ImageFiles(open_store(str(tmp_path))), [each for each in bombs() if each[0] == "large.webp"]
    )
    (answer,) = found.values()
    assert isinstance(answer, Rebuilt)
    assert (answer.width, answer.height) == (5_000, 5_000)


@pytest.mark.slow
async def test_two_hundred_hostile_files_in_a_folder(tmp_path: Path) -> None:
    await _check_hostile_files(str(tmp_path))


@pytest.mark.slow
async def test_two_hundred_hostile_files_on_s3(bucket: str) -> None:
    # One at a time: the gateway keeps objects in folders, and removes an empty one while another request is about to
    # write there.
    await _check_hostile_files(bucket, at_once=1)


async def _check_hostile_files(store: str, at_once: int = 2) -> None:
    wanted = hostile_files()
    assert len(wanted) >= 200
    found = await check_all(ImageFiles(open_store(store)), wanted, at_once)
    assert len(found) == len(wanted)
    assert all(isinstance(found[name], Rebuilt) for name, _ in files_with_metadata())
