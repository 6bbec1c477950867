"""A started process returns memory to the system."""

import ctypes
import subprocess
import sys
from typing import Final

import pytest

# Allocates and frees large blocks, with small lasting objects between them.
_PROGRAM: Final = """
import gc, sys
from pathlib import Path

from plaudit.processes.memory import YOUNG_OF_REQUESTS, tune_memory

def held_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

if "settled" in sys.argv:
    tune_memory(YOUNG_OF_REQUESTS)
before = held_mb()
large = bytearray(b"x") * (4 * 2**20)
del large
blocks, kept = [], []
for n in range(64):
    blocks.append(bytearray(b"x") * (300 * 2**10))
    kept.append(bytes([n]) * 2_000)
del blocks
print(held_mb() - before, gc.get_threshold()[0])
"""


def _grown_mb(*arguments: str) -> tuple[float, int]:
    printed = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments], check=True, capture_output=True, text=True
    ).stdout
    grown, threshold = printed.split()
    return float(grown), int(threshold)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="this C library has no mallopt, as glibc has")
def test_large_blocks_are_returned_to_the_system() -> None:
    without, _ = _grown_mb()
    with_it, threshold = _grown_mb("settled")
    assert with_it < 4 < 16 < without
    assert threshold > 700
