"""The last line of a library's log: aiokafka raises that no server answers, and logs why."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class LastWords(logging.Handler):
    """Keeps what was logged last."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the line."""
        self.text = record.getMessage()


@contextmanager
def last_words(library: str) -> Iterator[LastWords]:
    """Keep the lines of a library, and from going any further; the finding says in one what they say at length."""
    heard, logger = LastWords(), logging.getLogger(library)
    logger.addHandler(heard)
    logger.propagate = False
    try:
        yield heard
    finally:
        logger.removeHandler(heard)
        logger.propagate = True
