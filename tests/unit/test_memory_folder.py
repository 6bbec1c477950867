"""The in-memory folder of the tests' servers."""

from pathlib import Path

import pytest

from tests.support.memory_folder import memory_folder


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    folder = tmp_path / "memory"
    folder.mkdir()
    return folder


def test_folder_is_removed_after_the_block(memory: Path, tmp_path: Path) -> None:
    with memory_folder(tmp_path / "disk", memory, room=0) as folder:
        (folder / "data").mkdir()
        assert folder.parent == memory
    assert list(memory.iterdir()) == []


def test_disk_is_used_without_room_in_memory(memory: Path, tmp_path: Path) -> None:
    for place in (memory, tmp_path / "missing"):
        with memory_folder(tmp_path / "disk", place, room=2**60) as folder:
            assert folder == tmp_path / "disk"
            assert folder.is_dir()
        assert not folder.exists()


def test_leftovers_are_removed_unless_in_use(memory: Path, tmp_path: Path) -> None:
    left = memory / "plaudit-tests-left"
    left.mkdir()
    (left / "in-use").touch()
    with memory_folder(tmp_path / "disk", memory, room=0) as first:
        assert not left.exists()
        with memory_folder(tmp_path / "disk", memory, room=0) as second:
            assert {first, second} == set(memory.iterdir())
