"""Draft files: one run writes a file at a time, and the file is either complete or unchanged."""

import errno
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from plaudit.cli.command_line import in_words
from plaudit.errors import CommandError, UsageError
from plaudit.tools.image_folder import images_beside
from plaudit.tools.imports.checkpoint import Checkpoint
from plaudit.tools.whole_files import draft_of, locked_draft, whole_file


def write_half(file: Path) -> None:
    with whole_file(file) as draft:
        draft.write(b"half")
        raise RuntimeError


def test_file_is_replaced_once_it_is_complete(tmp_path: Path) -> None:
    file = tmp_path / "reviews.jsonl"
    file.write_text("before")
    draft_of(file).write_text("what a killed run has left")
    seen: list[str] = []
    with whole_file(file, lambda: seen.append(file.read_text())) as draft:
        draft.write(b"after")
        assert file.read_text() == "before"
    assert seen == ["after"]
    with pytest.raises(RuntimeError):
        write_half(file)
    assert [each.name for each in tmp_path.iterdir()] == ["reviews.jsonl"]
    assert file.read_text() == "after"
    assert file.stat().st_mode & 0o777 == 0o600


def test_full_disk_is_reported_with_the_file_and_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "reviews.jsonl"
    with pytest.raises(OSError) as caught, whole_file(file):  # noqa: PT011 - checked below
        raise OSError(errno.ENOSPC, "No space left on device")
    assert in_words(caught.value) == (
        f"{file} can't be written: No space left on device. Free space there or choose another place, then run this "
        "again."
    )


def test_unwritable_place_is_named_without_the_draft(tmp_path: Path) -> None:
    file = Path("/proc/reviews.jsonl")
    for opened in (whole_file(file), locked_draft(file)):
        with pytest.raises(OSError) as caught, opened:  # noqa: PT011 - checked below
            pass
        assert in_words(caught.value) == f"{file}: No such file or directory."
    draft = draft_of(tmp_path / "reviews.jsonl")
    draft.mkdir()
    with pytest.raises(IsADirectoryError) as in_the_way, whole_file(tmp_path / "reviews.jsonl"):
        pass
    assert in_words(in_the_way.value) == f"{draft}: Is a directory."


def test_draft_that_is_a_link_is_refused(tmp_path: Path) -> None:
    file, checkpoint, target = (tmp_path / name for name in ("reviews.jsonl", "checkpoint.json", "target"))
    target.write_text("somebody else's")
    for each in (file, checkpoint):
        draft_of(each).symlink_to(target)
    for opened in (whole_file(file), locked_draft(file)):
        with pytest.raises(UsageError, match="symbolic link"), opened:
            pass
    with pytest.raises(UsageError, match="symbolic link"):
        Checkpoint(job="a").write(checkpoint)
    assert target.read_text() == "somebody else's"


@pytest.mark.parametrize("is_read", [True, False])
def test_draft_that_is_a_pipe_is_refused_without_waiting(tmp_path: Path, *, is_read: bool) -> None:
    file, checkpoint = tmp_path / "reviews.jsonl", tmp_path / "checkpoint.json"
    with ExitStack() as readers:
        for each in (draft_of(file), draft_of(checkpoint)):
            os.mkfifo(each)
            if is_read:
                readers.callback(os.close, os.open(each, os.O_RDONLY | os.O_NONBLOCK))
        for opened in (whole_file(file), locked_draft(file)):
            with pytest.raises(UsageError, match=r"not a regular file: remove it"), opened:
                pass
        with pytest.raises(UsageError, match=r"not a regular file: remove it"):
            Checkpoint(job="a").write(checkpoint)


def test_file_system_without_locks_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lock(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", lock)
    with pytest.raises(CommandError, match=r"can't be locked .*another folder"), whole_file(tmp_path / "reviews.jsonl"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_only_one_run_writes_a_file_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "reviews.jsonl"
    with whole_file(file) as draft:
        draft.write(b"the first")
        for second in (whole_file(file), locked_draft(file)):
            with pytest.raises(CommandError, match="Another run is writing"), second:
                pass
    assert file.read_text() == "the first"


def test_device_or_pipe_is_not_replaced(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "null"
    os.mkfifo(pipe)
    link.symlink_to("/dev/null")
    for special in (pipe, link):
        with pytest.raises(UsageError, match="standard output"), whole_file(special):
            pass
    assert sorted(each.name for each in tmp_path.iterdir()) == ["null", "pipe"]


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="/missing is not a folder: create it"),
        whole_file(tmp_path / "missing" / "a.csv"),
    ):
        pass


def test_anonymous_pipe_is_not_replaced() -> None:
    reading, writing = os.pipe()
    with (
        os.fdopen(reading, "rb"),
        os.fdopen(writing, "wb"),
        pytest.raises(UsageError, match="standard output"),
        whole_file(Path(f"/dev/fd/{writing}")),
    ):
        pass


@pytest.mark.parametrize("is_there", [True, False])
def test_link_is_followed_to_its_file(tmp_path: Path, *, is_there: bool) -> None:
    real, link = tmp_path / "2026.jsonl", tmp_path / "latest.jsonl"
    link.symlink_to(real)
    if is_there:
        real.write_text("before")
    with whole_file(link) as draft:
        draft.write(b"after")
    assert (real.read_text(), link.readlink()) == ("after", real)
    assert images_beside(link) == images_beside(real) == tmp_path / "2026.jsonl.images"


@pytest.mark.parametrize("is_named", [True, False])
def test_replaced_or_deleted_draft_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_named: bool
) -> None:
    file = tmp_path / "reviews.jsonl"
    draft_of(file).write_text("the first")

    def lock(*_: object) -> None:
        # The first run ends between opening and locking.
        monkeypatch.undo()
        if is_named:
            draft_of(file).replace(file)
        else:
            draft_of(file).unlink()

    monkeypatch.setattr("fcntl.flock", lock)
    with locked_draft(file) as draft:
        draft.write(b"the second")
        draft.flush()
        assert draft_of(file).read_text() == "the second"
    assert not is_named or file.read_text() == "the first"
