"""The store of images in a folder."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import obstore
import pytest

from storage.images_files import ImageFiles, open_store


async def test_files_are_removed_several_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
