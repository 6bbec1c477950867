"""A folder in the machine's memory, for servers whose data nobody needs when the tests are over."""

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

_ROOM: Final = 4 * 1024**3
"""What has to be free: a run writes a part of it, and the 64 MiB that containers usually have are too few."""


@contextmanager
def memory_folder(otherwise: Path, memory: Path = _MEMORY, room: int = _ROOM) -> Iterator[Path]:
    """A folder that is gone after the block: in the memory if there is room, else this one, which is made.

    No disk is waited for there, however often a server syncs its files. What it has written outlives its process as
    on a disk, so tests kill it just as well. Folders that were left by killed runs go first.
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
            # No child inherits it, so it ends with this process; and it has its name once it is held.
            fcntl.flock(lock, fcntl.LOCK_EX)
            (folder / "new").rename(folder / _LOCK)
            try:
                yield folder
            finally:
                # While it is held: another run would remove the folder, too.
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
            continue  # in use, another user's, or somebody else removes it
