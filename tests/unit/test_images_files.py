"""The image store in folders, in buckets, and during outages."""

import asyncio
import errno
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import obstore
import pytest
from obstore.exceptions import BaseError, GenericError

from domain.images import SIZES
from storage.images.files import MARK, ImageFiles, files_in_memory, is_image_store_away, open_store
from tests.support.s3_strict import strict_s3


async def test_files_are_removed_concurrently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, ids = ImageFiles(open_store(str(tmp_path))), [str(uuid4()) for _ in range(20)]
    for id in ids[:-1]:
        await files.put(id, [b"large", b"small"])
    both, delete = asyncio.Barrier(2), obstore.delete_async

    async def delete_beside_another(store: Any, path: str) -> None:
        await both.wait()
        await delete(store, path)

    monkeypatch.setattr(obstore, "delete_async", delete_beside_another)
    async with asyncio.timeout(60):
        await files.remove(ids)
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


async def test_remains_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    """It has the name of a temporary file, which listings omit."""
    files, gone, other, now = ImageFiles(open_store(str(tmp_path))), str(uuid4()), str(uuid4()), datetime.now(UTC)
    for id in (gone, other):
        await files.put(id, [b"large", b"small"])
    upload = tmp_path / "incoming" / gone / "abc#1"
    of_images = [tmp_path / "images" / id / "1600#1" for id in (gone, other)]
    upload.parent.mkdir(parents=True)
    for file in (upload, *of_images):
        file.write_bytes(b"a part")
    await files.remove_old_uploads(now - timedelta(days=1))
    assert upload.exists()
    await files.remove_old_uploads(now + timedelta(days=1))
    assert not upload.parent.exists()
    # Remains of an image are only removed together with it, once they are old.
    await files.remove([gone])
    assert all(file.exists() for file in of_images)
    for file in of_images:
        os.utime(file, (0, 0))
    await files.remove([gone])
    assert [file.exists() for file in of_images] == [False, True]
    assert not of_images[0].parent.exists()
    assert await files.get(other, 1600) == b"large"


async def test_concurrently_removed_remains_are_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, original_stat = ImageFiles(open_store(str(tmp_path))), Path.stat
    remains = [tmp_path / f"incoming/{uuid4()}/abc#1" for _ in range(2)]
    for file in remains:
        file.parent.mkdir(parents=True)
        file.write_bytes(b"a part")

    def removed_first(path: Path, **options: Any) -> os.stat_result:
        if path in remains and not removed:
            removed.append(path)
            path.unlink()
        return original_stat(path, **options)

    removed = list[Path]()
    monkeypatch.setattr(Path, "stat", removed_first)
    await files.remove_old_uploads(datetime.now(UTC) + timedelta(days=1))
    assert len(removed) == 1
    assert not any(file.exists() for file in remains)


async def test_failed_removal_does_not_block_others(tmp_path: Path) -> None:
    files, held, gone = ImageFiles(open_store(str(tmp_path))), str(uuid4()), [str(uuid4()) for _ in range(20)]
    for id in gone:
        await files.put(id, [b"large", b"small"])
    for size in SIZES:
        (tmp_path / "images" / held / str(size) / "a folder in its place").mkdir(parents=True)
    assert await files.remove([held, *gone]) == {held}
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []
    assert await files.remove([held]) == {held}


async def test_removal_from_an_unavailable_store_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(store: Any, path: str) -> None:
        raise GenericError(f"{path}: no route to host")

    monkeypatch.setattr(obstore, "delete_async", away)
    with pytest.raises(BaseError, match="no route"):
        await files_in_memory().remove([str(uuid4())])


async def test_written_files_and_folders_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, id, fsync = ImageFiles(open_store(str(tmp_path))), str(uuid4()), os.fsync
    synced: list[str] = []

    def recording_fsync(descriptor: int) -> None:
        fsync(descriptor)
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(tmp_path)))

    monkeypatch.setattr(os, "fsync", recording_fsync)
    await files.put_upload(id, "abc", b"upload")
    assert synced == [f"incoming/{id}/abc", f"incoming/{id}", "incoming", "."]
    synced.clear()
    await files.put(id, [b"large", b"small"])
    folders = [f"images/{id}", "images", "."]
    assert synced == [f"images/{id}/1600", *folders, f"images/{id}/320", *folders]


async def test_file_system_without_folder_sync_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def fsync_of_files_only(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "of files alone")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync_of_files_only)
    files, id = ImageFiles(open_store(str(tmp_path))), str(uuid4())
    await files.put_upload(id, "abc", b"upload")
    assert await files.upload(id, "abc") == b"upload"


async def test_failing_disk_counts_as_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: int) -> None:
        raise OSError(errno.EIO, "the disk fails")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(GenericError, match="the disk fails") as raised:
        await ImageFiles(open_store(str(tmp_path))).put_upload(str(uuid4()), "abc", b"upload")
    assert is_image_store_away(raised.value)


async def test_missing_bucket_counts_as_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    with strict_s3(monkeypatch, has_bucket=False) as address:
        files = ImageFiles(open_store(address))
        for attempt in (files.put_upload("a", "abc", b"upload"), files.has_upload("a"), files.probe()):
            with pytest.raises(BaseError) as raised:
                await attempt
            assert is_image_store_away(raised.value)


async def test_mark_can_be_copied_as_a_file(tmp_path: Path) -> None:
    files = ImageFiles(open_store(str(tmp_path / "first")))
    assert not await files.is_marked()
    await files.mark()
    assert await files.is_marked()
    (tmp_path / "second" / "images").mkdir(parents=True)
    (tmp_path / "second" / MARK).write_bytes((tmp_path / "first" / MARK).read_bytes())
    assert await ImageFiles(open_store(str(tmp_path / "second"))).is_marked()


async def test_mark_needs_no_further_permissions(monkeypatch: pytest.MonkeyPatch) -> None:
    with strict_s3(monkeypatch, may_list=True, folders=("incoming/", "images/")) as address:
        files = ImageFiles(open_store(address))
        assert not await files.is_marked()
        await files.mark()
        assert await files.is_marked()


async def test_server_without_delete_objects_removes_files(monkeypatch: pytest.MonkeyPatch) -> None:
    with strict_s3(monkeypatch, may_list=True) as address:
        files, id, other = ImageFiles(open_store(address)), str(uuid4()), str(uuid4())
        await files.put_upload(id, "abc", b"upload")
        for each in (id, other):
            await files.put(each, [b"large", b"small"])
        await files.remove_upload(id, "abc")
        assert await files.remove([id]) == set()
        assert await files.upload(id, "abc") is None
        assert [await files.get(each, SIZES[0]) for each in (id, other)] == [None, b"large"]
