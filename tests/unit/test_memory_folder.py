"""The in-memory folder of the tests' servers."""

from pathlib import Path

import pytest

from tests.support.memory_folder import memory_folder


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    folder = tmp_path / "memory"
    folder.mkdir()
    return folder


def test_it_is_gone_after_the_block(memory: Path, tmp_path: Path) -> None:
    with memory_folder(tmp_path / "disk", memory, room=0) as folder:
        (folder / "data").mkdir()
        assert folder.parent == memory
    assert list(memory.iterdir()) == []


def test_the_disk_is_used_where_there_is_no_room(memory: Path, tmp_path: Path) -> None:
    for place in (memory, tmp_path / "missing"):
        with memory_folder(tmp_path / "disk", place, room=2**60) as folder:
            assert folder == tmp_path / "disk"
            assert folder.is_dir()
        assert not folder.exists()


def test_what_a_killed_run_left_goes_and_what_is_in_use_stays(memory: Path, tmp_path: Path) -> None:
    left = memory / "plaudit-tests-left"
    left.mkdir()
    (left / "in-use").touch()
    with memory_folder(tmp_path / "disk", memory, room=0) as first:
        assert not left.exists()
        with memory_folder(tmp_path / "disk", memory, room=0) as second:
            assert {first, second} == set(memory.iterdir())
