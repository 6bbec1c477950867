"""A folder in memory, for servers whose data isn't needed after the tests."""

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - each folder in it is made by mkdtemp
_PREFIX: Final = "plaudit-tests-"
_LOCK: Final = "in-use"

_MIN_FREE: Final = 4 * 1024**3
"""Free bytes required: a run writes only a part of it, but the usual 64 MiB of containers are too few."""


@contextmanager
def memory_folder(otherwise: Path, memory: Path = _MEMORY, room: int = _MIN_FREE) -> Iterator[Path]:
    """A folder in memory if there is room, else `otherwise`, which is created; removed after the block.

    Syncing files takes no time there, and data survives the death of its process as on a disk, so tests may kill it.
    Folders left behind by killed runs are removed first.
    """
    _sweep(memory)
    if not memory.is_dir() or shutil.disk_usage(memory).free < room:
        otherwise.mkdir()
        yield otherwise
        shutil.rmtree(otherwise)
        return
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=memory))
    try:
        with (folder / "new").open("w") as lock:
            # Not inherited by children, so the lock ends with this process. The file gets its name once it is locked.
            fcntl.flock(lock, fcntl.LOCK_EX)
            (folder / "new").rename(folder / _LOCK)
            try:
                yield folder
            finally:
                # While the lock is held: otherwise another run would remove the folder, too.
                shutil.rmtree(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(memory: Path) -> None:
    for lock in memory.glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            with lock.open("r+") as left:
                fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent)
        except OSError:
            continue  # in use, another user's, or being removed by another run
