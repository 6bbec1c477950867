"""How often Python looks for garbage in cycles: seldom, once a process has started."""

from __future__ import annotations

import gc
from typing import Final

_THRESHOLDS: Final = (50_000, 20, 20)
"""New containers before a look through the young ones (Python's default is 700), and how many of those come before each
deeper look. A batch or a request frees what it makes by itself: looking took a tenth of a worker's time."""


def expect_little() -> None:
    """What there is stays for good and is looked at no more; what comes is looked at less often."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
