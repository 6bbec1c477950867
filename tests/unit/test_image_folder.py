"""The image folder beside an export is replaced as a whole or not at all."""

from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import pytest

from plaudit.errors import UsageError
from plaudit.tools.image_folder import folder_before, image_file, image_folder, remove_folder_before
from plaudit.tools.imports.images import images_in


def write_half(folder: Path, id: str) -> None:
    with image_folder(folder) as draft:
        draft.mkdir()
        image_file(draft, id).write_text("half")
        raise RuntimeError


def test_folder_replaces_the_previous_one(tmp_path: Path) -> None:
    folder, ids = tmp_path / "r.jsonl.images", [str(uuid4()) for _ in range(4)]
    for id in ids[:3]:
        with image_folder(folder) as draft:
            draft.mkdir()
            image_file(draft, id).write_text(id)
        assert [each.name for each in folder.iterdir()] == [f"{id}.jpg"]
    # The images of the old export are kept until a new one is renamed into place, also if several are killed before.
    assert {each.name for each in folder_before(folder).iterdir()} == {f"{id}.jpg" for id in ids[:2]}
    for id in ids[:3]:
        entry = {"id": id, "sha256": sha256(id.encode()).hexdigest()}
        assert [each.content for each in images_in({"images": [entry]}, folder)] == [id.encode()]
    remove_folder_before(folder)
    with pytest.raises(RuntimeError):
        write_half(folder, ids[3])
    assert [each.name for each in folder.iterdir()] == [f"{ids[2]}.jpg"]
    with image_folder(folder):
        pass
    remove_folder_before(folder)
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_killed_export_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "r.jsonl.images"
    for left in (".draft", ".old"):
        place = folder.with_name(folder.name + left)
        place.mkdir()
        image_file(place, str(uuid4())).touch()
    with image_folder(folder) as draft:
        draft.mkdir()
    # The previous export may have no other images.
    assert sorted(tmp_path.iterdir()) == [folder, folder_before(folder)]
    remove_folder_before(folder)
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("suffix", ["", ".old", ".draft"])
def test_link_is_not_replaced(tmp_path: Path, suffix: str) -> None:
    folder, elsewhere = tmp_path / "r.jsonl.images", tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = folder.with_name(folder.name + suffix)
    link.symlink_to(elsewhere)
    with pytest.raises(UsageError, match="is a symbolic link"), image_folder(folder):
        pass
    assert link.is_symlink()


@pytest.mark.parametrize("name", ["mine.txt", "574071cc-f419-4a27-a580-339d691a1ccf.png", "x.jpg"])
def test_foreign_files_are_not_replaced(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "r.jsonl.images"
    folder.mkdir()
    (folder / name).touch()
    with pytest.raises(UsageError, match="would be replaced"), image_folder(folder):
        pass
    assert (folder / name).exists()
