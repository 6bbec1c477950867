"""Settings of memory: Python collects garbage less often, and large blocks go back to the system."""

import ctypes
import gc
from typing import Final

YOUNG_OF_BATCHES: Final = 50_000
"""New containers before the collector looks through them (Python's default is 700), for a process that works in
batches. A batch frees what it makes by itself: looking took a tenth of a worker's time."""

YOUNG_OF_REQUESTS: Final = 5_000
"""The same for one that answers requests: 50,000 took 40 to 100 ms to look through, and each was some client's wait."""

_DEEPER: Final = 20
"""So many looks come before each deeper one."""

_M_MMAP_THRESHOLD: Final = -3
_LARGE: Final = 256 * 1024


def tune_memory(young: int) -> None:
    """Freeze start-up objects so that the garbage collector skips them, collect after so many `young` containers, and
    return large blocks."""
    gc.freeze()
    gc.set_threshold(young, _DEEPER, _DEEPER)
    _give_back_large_blocks()


def _give_back_large_blocks() -> None:
    """Have glibc take each block of 256 KB and more from the system, and return it.

    By itself it begins to keep larger and larger ones, up to 32 MB, once it has seen them freed; fetches of Kafka and
    batches for MongoDB then lie between small blocks that stay. A worker took 96 MB with this, 117 to 134 without.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc alone has it
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE)
